"""Models as a recipe declares them: where the weights come from, and what of them is trained."""

import re
from typing import Literal

from posttrain.spec.declaration_fields import Declaration, field
from posttrain.spec.field_types import Pair

_HUB_URL = "https://huggingface.co/"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[\w.-]{1,96})?", re.ASCII)


def check_model_origin(name: str | None) -> None:
    """ValueError for what is neither a name on the hub nor a folder."""
    if name is None or name.startswith((".", "/")) or _HUB_NAME.fullmatch(name):
        return
    if name.startswith(_HUB_URL):
        raise ValueError(f"is an address; on the hub it is called {name.removeprefix(_HUB_URL)}")
    raise ValueError("is neither ORG/NAME on the hub nor a folder beside the recipe, written ./NAME")


class RandomInit(Declaration):
    """The shape of a model that starts from random weights."""

    model_type: str = field(description="The architecture, such as qwen2, llama or gpt2.")
    num_hidden_layers: int = field(ge=1, description="Transformer layers.")
    hidden_size: int = field(ge=8, description="The width of the residual stream.")
    num_attention_heads: int = field(ge=1, description="Attention heads.")
    num_key_value_heads: int | None = field(
        default=None, ge=1, description="Key/value heads; as many as heads."
    )
    intermediate_size: int | None = field(default=None, ge=8, description="The width inside the MLP.")
    max_position_embeddings: int = field(default=512, ge=8, description="The longest sequence, in tokens.")
    rope_theta: float | None = field(
        default=None,
        gt=1,
        description="The base of the rotary positions; the architecture's own if not given.",
    )
    initializer_range: float | None = field(
        default=None,
        gt=0,
        description="The standard deviation of the random weights; the architecture's own.",
    )
    tie_word_embeddings: bool = field(
        default=True, description="Whether input and output embeddings are one."
    )


class Tokenizer(Declaration):
    """Where the tokenizer comes from, when not from the model itself."""

    init: Literal["characters"] | None = field(
        default=None, description="Build one: `characters` gives every character a token."
    )
    alphabet: str = field(
        default=" !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
        "abcdefghijklmnopqrstuvwxyz{|}~\n",
        description="The characters of a built tokenizer.",
    )
    added_tokens: list[str] = field(
        default_factory=list, description="Strings that get one token each, such as tags."
    )
    from_: str | None = field(
        default=None,
        key="from",
        check=check_model_origin,
        description="A hub name or a path to take the tokenizer from.",
    )
    revision: str | None = field(default=None, description="The revision on the hub.")


class Adapter(Declaration):
    """What part of the weights is trained."""

    type: Literal["full", "lora", "qlora"] = field(
        default="lora", description="Train all weights, a LoRA, or a LoRA over 4-bit weights."
    )
    r: int = field(default=16, ge=1, description="The rank of the LoRA matrices.")
    lora_alpha: float = field(default=32.0, gt=0, description="The scale of the LoRA, over its rank.")
    use_rslora: bool = field(
        default=False,
        description="Scale the LoRA by alpha over the square root of its rank (rsLoRA), so that a high rank"
        " learns as fast as a low one.",
    )
    lora_dropout: float = field(default=0.0, ge=0, lt=1, description="Dropout before the LoRA.")
    target_modules: Literal["auto", "all-linear"] | list[str] = field(
        default="auto",
        description="The modules that get a LoRA: auto takes the attention projections of the"
        " architecture, all-linear every linear module but the output layer.",
    )
    existing_adapter: Literal["continue", "merge"] = field(
        default="continue",
        description="When the model already has an adapter: go on with it, or merge it and start anew.",
    )


class Tags(Declaration):
    """The tags that a completion is expected to hold, for a generated chat template."""

    think: Pair | None = field(
        default=None, description="The tags around the reasoning, opening and closing."
    )
    answer: Pair | None = field(default=None, description="The tags around the answer, opening and closing.")
    system: str | None = field(
        default=None,
        description="What a conversation without a system message begins with; {think_open}, {think_close},"
        " {answer_open} and {answer_close} stand for the tags.",
    )


class Model(Declaration):
    """A model to start from."""

    init: RandomInit | None = field(default=None, description="Random weights of this shape.")
    from_: str | None = field(
        default=None,
        key="from",
        check=check_model_origin,
        description="ORG/NAME on the hub, or a folder beside the recipe, written ./NAME.",
    )
    revision: str | None = field(
        default=None, description="The hub revision; a full commit hash makes the run repeatable."
    )
    tokenizer: Tokenizer | None = field(
        default=None, description="The tokenizer, when it is not the model's own."
    )
    chat_template: str | None = field(
        default=None, description="A Jinja file beside the recipe that renders conversations."
    )
    tags: Tags | None = field(default=None, description="Tags for a generated chat template.")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = field(
        default="auto",
        description="The precision of the weights. auto keeps what is stored, but trains whole weights in"
        " float32, where small steps are not lost, and gives them in what was stored.",
    )
    quantize: Literal["none", "int8", "nf4"] = field(
        default="none", description="Quantise the frozen weights when loading."
    )
    adapter: Adapter | None = field(
        default=None, description="How stages train this model, unless they say otherwise."
    )
