"""The built-in chat templates: their text, and the tokens that they need."""

import functools
import pkgutil
from collections.abc import Sequence

from posttrain.spec.keys import digest_bytes
from posttrain.spec.record import record

# The template of a model with random weights that reads conversations, if the recipe sets none.
DEFAULT_TEMPLATE = "chatml"
TEMPLATE_SUFFIX = ".jinja"
PAD_TOKEN, END_TOKEN, UNKNOWN_TOKEN = "<|pad|>", "<|end|>", "<|unknown|>"


@record(kw_only=True)
class BuiltinTemplate:
    name: str
    # The token that ends a turn; None for the tokenizer's own end token.
    end_of_turn: str | None = None
    # The token that starts a text; None if the template starts with none.
    bos: str | None = None
    # Tokens around the turns, without which a model could neither read nor end one.
    required: tuple[str, ...] = ()
    # Texts that are one token in some tokenizers of the family, and plain text in others.
    markers: tuple[str, ...] = ()
    # Texts that a model generates, and that decoding therefore shows.
    generated: tuple[str, ...] = ()
    # Further fixed text, such as the names of roles.
    words: str = "systemuserassistant\n"
    # Whether it has a form for tools. The others raise an error for rows with tools.
    renders_tools: bool = False

    @property
    def text(self) -> str:
        return _read(self.name)

    @property
    def sha256(self) -> str:
        return digest_bytes(self.text.encode())


_TOOL_TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
_TEMPLATES = (
    BuiltinTemplate(name="chatml", end_of_turn="<|im_end|>", required=("<|im_start|>",), renders_tools=True),
    BuiltinTemplate(
        name="llama3",
        end_of_turn="<|eot_id|>",
        bos="<|begin_of_text|>",
        required=("<|start_header_id|>", "<|end_header_id|>"),
        renders_tools=True,
    ),
    BuiltinTemplate(
        name="qwen",
        end_of_turn="<|im_end|>",
        required=("<|im_start|>",),
        generated=("<think>", "</think>", *_TOOL_TAGS),
        renders_tools=True,
    ),
    BuiltinTemplate(
        name="gemma",
        end_of_turn="<end_of_turn>",
        bos="<bos>",
        required=("<start_of_turn>",),
        words="usermodel\n",
    ),
    BuiltinTemplate(
        name="mistral",
        bos="<s>",
        markers=(
            *("[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
            *("[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
        ),
        generated=("[TOOL_CALLS]",),
        words=" \n",
        renders_tools=True,
    ),
    BuiltinTemplate(name="zephyr", markers=("<|system|>", "<|user|>", "<|assistant|>"), words="\n"),
    BuiltinTemplate(name="tulu", markers=("<|system|>", "<|user|>", "<|assistant|>"), words="\n"),
)
BUILTIN_TEMPLATES = {template.name: template for template in _TEMPLATES}


@record(kw_only=True)
class CharacterVocabulary:
    """The tokens of a character tokenizer, in the order of their ids."""

    end: str
    bos: str | None
    special: tuple[str, ...]
    letters: tuple[str, ...]
    words: tuple[str, ...]

    def __len__(self) -> int:
        return len({*self.special, *self.letters, *self.words})


def character_vocabulary(
    alphabet: str,
    added_tokens: Sequence[str],
    template: BuiltinTemplate | None,
    added_special_tokens: Sequence[str] = (),
) -> CharacterVocabulary:
    """The tokens of a character tokenizer, with those that the model's built-in template needs."""
    end = (template.end_of_turn if template else None) or END_TOKEN
    bos = template.bos if template else None
    special = [PAD_TOKEN, end, UNKNOWN_TOKEN, *([bos] if bos else [])]
    if template is not None:
        special += [*template.required, *template.markers]
    special += [token for token in added_special_tokens if token not in special]
    words = (*added_tokens, *(template.generated if template else ()))
    return CharacterVocabulary(
        end=end,
        bos=bos,
        special=tuple(special),
        letters=tuple(dict.fromkeys(alphabet + (template.words if template else ""))),
        words=tuple(word for word in dict.fromkeys(words) if word not in special),
    )


def is_template_file(name: str) -> bool:
    """Whether a `chat_template` names a file and not a built-in template."""
    return name.endswith(TEMPLATE_SUFFIX)


@functools.cache
def _read(name: str) -> str:
    data = pkgutil.get_data(__package__ or "", f"{name}{TEMPLATE_SUFFIX}")
    assert data is not None, f"the package has no template {name}"
    return data.decode()
