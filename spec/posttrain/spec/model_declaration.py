"""Model declarations: origin of the weights, tokenizer, chat template, adapter."""

import re
from typing import Annotated, Literal

from pydantic import Field

from posttrain.spec.declaration_fields import Declaration
from posttrain.spec.field_types import Items, Pair, checked_by

_HUB_URL = "https://huggingface.co/"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[\w.-]{1,96})?", re.ASCII)


def check_model_origin(name: str | None) -> None:
    """Raise ValueError unless the name is a hub name or a folder."""
    if name is None or name.startswith((".", "/")) or _HUB_NAME.fullmatch(name):
        return
    if name.startswith(_HUB_URL):
        raise ValueError(f"is a URL; the name on the hub is {name.removeprefix(_HUB_URL)}")
    raise ValueError("is neither ORG/NAME on the hub nor a local folder, written ./NAME")


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


class Tokenizer(Declaration):
    """Origin of the tokenizer, if it is not the model's own."""

    init: Literal["characters"] | None = Field(
        default=None, description="Build a tokenizer: `characters` has one token per character."
    )
    alphabet: str = Field(
        default=" !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
        "abcdefghijklmnopqrstuvwxyz{|}~\n",
        description="Characters of a tokenizer built with `init`.",
    )
    added_tokens: Items[str] = Field(
        default=(), description="Strings that become one token each, such as tags."
    )
    from_: Annotated[str, checked_by(check_model_origin)] | None = Field(
        default=None,
        alias="from",
        description="Hub name or path of the tokenizer.",
    )
    revision: str | None = Field(default=None, description="Revision on the hub.")


class Adapter(Declaration):
    """The weights to train: a LoRA adapter, or all weights."""

    type: Literal["full", "lora", "qlora"] = Field(
        default="lora",
        description="full trains all weights, lora a LoRA adapter, qlora a LoRA adapter over 4-bit weights.",
    )
    r: int = Field(default=16, ge=1, description="Rank of the LoRA matrices.")
    lora_alpha: float = Field(
        default=32.0, gt=0, description="Scaling of the LoRA update, which is multiplied by lora_alpha / r."
    )
    use_rslora: bool = Field(
        default=False,
        description="Scale the LoRA update by lora_alpha / sqrt(r) (rsLoRA) instead. Use it for high ranks.",
    )
    lora_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="Dropout probability of the LoRA layers' input."
    )
    target_modules: Literal["auto", "all-linear"] | Items[str] = Field(
        default="auto",
        description="Modules that get a LoRA: auto selects the attention projections of the architecture,"
        " all-linear every linear module except the output layer.",
    )
    existing_adapter: Literal["continue", "merge"] = Field(
        default="continue",
        description="If the model already has an adapter: continue training it, or merge it into the weights"
        " and train a new one.",
    )

    def check(self) -> None:
        if not self.target_modules:
            raise ValueError("target_modules is empty: name modules, or write auto or all-linear")


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
        default=None, description="Jinja file in the recipe's folder that renders conversations."
    )
    tags: Tags | None = Field(
        default=None, description="Generate a chat template with these tags instead of `chat_template`."
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
