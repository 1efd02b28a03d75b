"""Models as a recipe declares them: where the weights come from, and what of them is trained."""

import re
from typing import Literal

from posttrain.spec.declared import Declaration, field
from posttrain.spec.forms import Pair

_HUB = "https://huggingface.co/"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[\w.-]{1,96})?", re.ASCII)


def origin(name: str | None) -> None:
    """ValueError for what is neither a name on the hub nor a folder."""
    if name is None or name.startswith((".", "/")) or _HUB_NAME.fullmatch(name):
        return
    if name.startswith(_HUB):
        raise ValueError(f"is an address; on the hub it is called {name.removeprefix(_HUB)}")
    raise ValueError("is neither ORG/NAME on the hub nor a folder beside the recipe, written ./NAME")


class Scratch(Declaration):
    """The shape of a model that starts from random weights."""

    family: str = field(description="The architecture, such as qwen2, llama or gpt2.")
    layers: int = field(ge=1, description="Transformer layers.")
    hidden: int = field(ge=8, description="The width of the residual stream.")
    heads: int = field(ge=1, description="Attention heads.")
    kv_heads: int | None = field(default=None, ge=1, description="Key/value heads; as many as heads.")
    intermediate: int | None = field(default=None, ge=8, description="The width inside the MLP.")
    context: int = field(default=512, ge=8, description="The longest sequence, in tokens.")
    rope_theta: float | None = field(
        default=None,
        gt=1,
        description="The base of the rotary positions; the architecture's own if not given.",
    )
    spread: float | None = field(
        default=None,
        gt=0,
        description="The standard deviation of the random weights; the architecture's own.",
    )
    tied: bool = field(default=True, description="Whether input and output embeddings are one.")


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
    words: list[str] = field(
        default_factory=list, description="Strings that get one token each, such as tags."
    )
    from_: str | None = field(
        default=None,
        key="from",
        check=origin,
        description="A hub name or a path to take the tokenizer from.",
    )
    revision: str | None = field(default=None, description="The revision on the hub.")


class Adapter(Declaration):
    """What part of the weights is trained."""

    kind: Literal["full", "lora", "qlora"] = field(
        default="lora", description="Train all weights, a LoRA, or a LoRA over 4-bit weights."
    )
    rank: int = field(default=16, ge=1, description="The rank of the LoRA matrices.")
    alpha: float = field(default=32.0, gt=0, description="The scale of the LoRA, over its rank.")
    rank_stable: bool = field(
        default=False,
        description="Scale the LoRA by alpha over the square root of its rank (rsLoRA), so that a high rank"
        " learns as fast as a low one.",
    )
    dropout: float = field(default=0.0, ge=0, lt=1, description="Dropout before the LoRA.")
    targets: Literal["auto", "all"] | list[str] = field(
        default="auto",
        description="The modules that get a LoRA: auto picks by architecture those of the attention, all is"
        " every linear module but the output layer.",
    )
    carry: Literal["continue", "merge"] = field(
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

    init: Scratch | None = field(default=None, description="Random weights of this shape.")
    from_: str | None = field(
        default=None,
        key="from",
        check=origin,
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
