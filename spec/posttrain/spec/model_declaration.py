"""Model declarations: origin of the weights, tokenizer, chat template, adapter."""

from typing import Annotated, Any, Literal

from pydantic import Field

from posttrain.spec.adapter_declaration import Adapter
from posttrain.spec.chat_templates.builtin_templates import BUILTIN_TEMPLATES
from posttrain.spec.declaration_fields import Declaration
from posttrain.spec.field_types import Pair, checked_by
from posttrain.spec.origin_names import check_model_origin, is_folder
from posttrain.spec.tokenizer_declaration import DEFAULT_INITIALIZATION, FieldPathError, Tokenizer


class RandomInit(Declaration):
    """Architecture of a model with random weights."""

    model_type: str = Field(description="Architecture, such as qwen2, llama or gpt2.")
    num_hidden_layers: int = Field(ge=1, description="Number of transformer layers.")
    hidden_size: int = Field(ge=8, description="Size of the hidden states.")
    num_attention_heads: int = Field(ge=1, description="Number of attention heads.")
    num_key_value_heads: int | None = Field(
        default=None, ge=1, description="Number of key/value heads. Default: num_attention_heads."
    )
    intermediate_size: int | None = Field(
        default=None, ge=8, description="Size of the MLP. Default: the architecture's."
    )
    max_position_embeddings: int = Field(default=512, ge=8, description="Maximum sequence length, in tokens.")
    rope_theta: float | None = Field(
        default=None,
        gt=1,
        description="Base of the rotary position embeddings. Default: the architecture's.",
    )
    initializer_range: float | None = Field(
        default=None,
        gt=0,
        description="Standard deviation of the random weights. Default: the architecture's.",
    )
    tie_word_embeddings: bool = Field(
        default=True, description="Whether input and output embeddings share their weights."
    )


class Tags(Declaration):
    """Tags of the expected completions, for a generated chat template."""

    think: Pair[str] | None = Field(default=None, description="Opening and closing tag around the reasoning.")
    answer: Pair[str] | None = Field(default=None, description="Opening and closing tag around the answer.")
    system: str | None = Field(
        default=None,
        description="Default system message of conversations that have none. {think_open}, {think_close},"
        " {answer_open} and {answer_close} insert the tags.",
    )


class Model(Declaration):
    """A model: its weights, its tokenizer and its chat template."""

    init: RandomInit | None = Field(
        default=None, description="Start from random weights with this architecture."
    )
    from_: Annotated[str, checked_by(check_model_origin)] | None = Field(
        default=None,
        alias="from",
        description="Model to load: ORG/NAME on the hub, or a folder relative to the recipe, written ./NAME.",
    )
    revision: str | None = Field(
        default=None, description="Hub revision. A full commit hash makes the run reproducible."
    )
    tokenizer: Tokenizer | None = Field(default=None, description="Tokenizer. Default: the model's own.")
    chat_template: str | None = Field(
        default=None,
        description="Template that renders conversations: the name of a built-in one"
        f" ({', '.join(BUILTIN_TEMPLATES)}), or a file of the recipe's folder that ends in .jinja. Default:"
        " the model's own; for a model created with `init` that reads conversations, chatml.",
    )
    tags: Tags | None = Field(
        default=None, description="Generate a chat template with these tags instead of `chat_template`."
    )
    chat_template_kwargs: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="Default arguments of the chat template, such as {enable_thinking: false}. They apply"
        " wherever the template is rendered, also in models trained from this one and in exported models."
        " `chat_template_kwargs` of a stage overrides them, and those of a row override both.",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto",
        description="Data type of the weights. auto uses the stored type, except that training of all weights"
        " uses float32, because bfloat16 loses small updates; the result has the stored type again.",
    )
    quantize: Literal["none", "int8", "nf4"] = Field(
        default="none", description="Quantization of the frozen weights at load time."
    )
    adapter: Adapter | None = Field(
        default=None, description="Default adapter of the stages that train this model."
    )

    def check(self) -> None:
        if self.from_ is not None and is_folder(self.from_):
            self.refuse_without_effect("revision", "on a local folder")
        if self.init is not None and self.from_ is None:
            self.refuse_without_effect("revision", "without `from`")
            if self.tokenizer is not None and self.tokenizer.new_embeddings != DEFAULT_INITIALIZATION:
                raise FieldPathError(
                    "has no effect: all weights of a model created with `init` are random",
                    ("tokenizer", "new_embeddings"),
                )
        self._check_end_token()

    def _check_end_token(self) -> None:
        template = BUILTIN_TEMPLATES.get(self.chat_template or "")
        token = self.tokenizer.eos_token if self.tokenizer is not None else None
        ends = template.end_of_turn if template is not None else None
        if None not in (ends, token) and ends != token:
            raise FieldPathError(
                f"the chat template `{self.chat_template}` ends a turn with `{ends}`, which is the end token"
                " then: remove the key",
                ("tokenizer", "eos_token"),
            )
