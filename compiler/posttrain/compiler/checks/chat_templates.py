"""Checks that chat templates end turns, and that they mark the text of the assistant."""

import re
from collections.abc import Iterator, Mapping, Sequence

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import MINIMAL_RECIPE
from posttrain.compiler.data.datasets import CompiledDataset, table_of
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.compiler.model_templates import template_text
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.text.compile_request import ReadFile
from posttrain.spec.chat_templates.builtin_templates import BUILTIN_TEMPLATES
from posttrain.spec.diagnostic import Code
from posttrain.spec.keys import digest_bytes
from posttrain.spec.model_declaration import Model

_TOKENIZER = "tokenizer: {init: characters}"
_WITH = _TOKENIZER + "\n    chat_template: "
_ENDS = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
_NEVER = "{% for m in messages %}{{ m.content }}{% endfor %}"
_MARKED = (
    "{% for m in messages %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}{% endfor %}"
)
_TEMPLATES = (("ends.jinja", _ENDS), ("never.jinja", _NEVER), ("marked.jinja", _MARKED))
NO_END_TOKEN = Code(
    "PT0813",
    "chat template without an end token",
    "warning",
    "A model learns to stop generating from the end token after each assistant turn. Without an end token in"
    " the template, the model learns to continue until its completions are truncated. Add `{{ eos_token }}`"
    " after the text of the turn.",
    wrong=MINIMAL_RECIPE.replace(_TOKENIZER, _WITH + "never.jinja"),
    right=MINIMAL_RECIPE.replace(_TOKENIZER, _WITH + "ends.jinja"),
    files=_TEMPLATES,
)
_STEPS = "    steps:\n"
_CONVERSATIONS = (
    _STEPS,
    _STEPS
    + "      - chat: {turns: [{user: prompt}, {assistant: completion}]}\n"
    + "      - select: [prompt, answer, messages]\n",
)
NO_GENERATION_MARKERS = Code(
    "PT0814",
    "chat template without generation markers",
    "error",
    "In whole conversations a model learns the assistant turns only, so the template must mark their tokens"
    " with {% generation %} and {% endgeneration %}. TRL adds the markers to the published templates that it"
    " knows; the training fails with any other template without markers. `loss_on: all` trains on the whole"
    " text instead. The built-in templates mark them.",
    wrong=MINIMAL_RECIPE.replace(_TOKENIZER, _WITH + "ends.jinja").replace(*_CONVERSATIONS),
    right=MINIMAL_RECIPE.replace(_TOKENIZER, _WITH + "marked.jinja").replace(*_CONVERSATIONS),
    files=_TEMPLATES,
)
CODES = (NO_END_TOKEN, NO_GENERATION_MARKERS)
# The end tokens in the templates of published models, and the end token of a character tokenizer.
_END_TOKENS = (
    *("<|im_end|>", "<|eot_id|>", "<|eot|>", "<end_of_turn>", "<turn|>", "</s>", "<|end|>"),
    "<|endoftext|>",
)
_CHARACTER_EOS = "<|end|>"
_GENERATION_BLOCK = re.compile(r"\{%-?\s*generation\s*-?%\}")


def check_chat_templates(
    resolved: ResolvedRecipe,
    trained: Sequence[TrainedModel],
    rows: Mapping[str, CompiledDataset],
    read: ReadFile,
    diagnostics: Diagnostics,
) -> None:
    """Check each template once, for the first stage that trains with it."""
    reported: set[tuple[str, str]] = set()
    for subject, name, text in _template_users(resolved, trained, read):
        origin = subject.base_model
        assert origin is not None, "a template belongs to a model"
        path = ("models", name, "chat_template")
        if not _writes_end_token(text, origin) and ("end", name) not in reported:
            reported.add(("end", name))
            message = f"the template has no end token: `{subject.name}` does not teach the model to stop"
            diagnostics.add(
                NO_END_TOKEN, path, message, help="add {{ eos_token }} after the text of the assistant"
            )
        if (
            _trains_on_conversations(subject, resolved, rows)
            and not _GENERATION_BLOCK.search(text)
            and not _is_known_template(text)
            and ("marks", name) not in reported
        ):
            reported.add(("marks", name))
            message = f"`{subject.name}` trains on the assistant turns, but the template does not mark them"
            help = (
                "put {% generation %} before the assistant's text and {% endgeneration %} after its end"
                " token, or set `loss_on: all`"
            )
            diagnostics.add(NO_GENERATION_MARKERS, path, message, help=help)


def _is_known_template(text: str) -> bool:
    """Whether TRL adds generation markers to this template."""
    return digest_bytes(text.encode()) in load_table("trl")["chat_templates"]


def _template_users(
    resolved: ResolvedRecipe, trained: Sequence[TrainedModel], read: ReadFile
) -> Iterator[tuple[TrainedModel, str, str]]:
    """Yield the stages that train on given text with a template file, and the text of the template."""
    names = {id(m): name for name, m in resolved.recipe.models.items() if m.chat_template is not None}
    for subject in trained if names else ():
        origin = subject.base_model
        if origin is None or origin.chat_template is None or subject.stage.prompts == "plain":
            continue
        if subject.method.needs_reward or origin.chat_template in BUILTIN_TEMPLATES:
            continue
        text = template_text(origin, read)
        if text is not None:
            yield subject, names[id(origin)], text


def _writes_end_token(text: str, model: Model) -> bool:
    own = model.tokenizer is not None and model.tokenizer.init is not None
    return "eos_token" in text or any(mark in text for mark in ((_CHARACTER_EOS,) if own else _END_TOKENS))


def _trains_on_conversations(
    trained_model: TrainedModel, resolved: ResolvedRecipe, rows: Mapping[str, CompiledDataset]
) -> bool:
    """Return whether the stage trains on whole conversations, with a loss on the assistant turns only."""
    ref = resolved.refs.get((f"stage:{trained_model.name}", "data"))
    table = table_of(ref, rows, resolved) if ref is not None else None
    return (
        trained_model.param_value("loss_on") == "completion"
        and table is not None
        and "messages" in table.columns
        and "completion" not in table.columns
    )
