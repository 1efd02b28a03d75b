"""The declaration of the weights to train: an adapter of PEFT, all weights, or a part of them."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from posttrain.spec.declaration_fields import Declaration, fields_of
from posttrain.spec.field_types import Items, checked_by

_LEARNED_PROMPTS = ("prompt_tuning", "prefix_tuning", "p_tuning", "prompt", "prefix", "p-tuning")


def _refuse_learned_prompts(value: object) -> object:
    """Raise ValueError for PEFT's types that learn a prompt instead of weights."""
    if value in _LEARNED_PROMPTS:
        raise ValueError(
            "is not supported: a learned prompt cannot be merged into the weights, so vLLM and most programs"
            " do not load it, and packed rows have no place for it; use lora with a small `r`"
        )
    return value


AdapterType = Literal["full", "lora", "qlora", "ia3", "oft", "vera"]

_LORA = ("lora", "qlora")
_LAYERED = (*_LORA, "oft", "vera")
_TARGETED = (*_LAYERED, "ia3")
# The types that each field belongs to. Fields without a row belong to every type.
FIELD_TYPES: Mapping[str, tuple[str, ...]] = {
    "trainable": ("full",),
    "freeze": ("full",),
    "r": (*_LORA, "vera"),
    "lora_alpha": _LORA,
    "use_rslora": _LORA,
    "use_dora": _LORA,
    "lora_dropout": _LORA,
    "init_lora_weights": _LORA,
    "loraplus_lr_ratio": _LORA,
    "bias": _LORA,
    "rank_pattern": _LORA,
    "alpha_pattern": _LORA,
    "trainable_token_indices": _LORA,
    "target_modules": _TARGETED,
    "modules_to_save": _TARGETED,
    "layers_to_transform": _LAYERED,
    "layers_pattern": _LAYERED,
    "feedforward_modules": ("ia3",),
    "oft_block_size": ("oft",),
    "use_cayley_neumann": ("oft",),
    "module_dropout": ("oft",),
    "vera_dropout": ("vera",),
    "d_initial": ("vera",),
    "projection_prng_key": ("vera",),
}
_PISSA_NITER = re.compile(r"pissa_niter_[1-9][0-9]{0,2}", re.ASCII)
_UNSUPPORTED_INITS = {
    "eva": "needs the activations of a pass over the data before training",
    "corda": "needs the activations of a pass over the data before training",
    "lora_ga": "needs the gradients of a pass over the data before training",
    "loftq": "replaces the base weights by quantized ones, to which the saved adapter could not refer",
    "mica": "freezes one of the two matrices, which TRL's trainers do not preserve",
}
_DEFAULT_RANKS = {"vera": 256}
_DEFAULT_RANK = 16
INIT_WORDS = ("default", "gaussian", "orthogonal", "pissa", "pissa_niter_N", "olora")


class _InitWordError(ValueError):
    legal = INIT_WORDS


def check_init_lora_weights(value: str) -> None:
    """Raise ValueError for an initialization that PEFT does not have, or that is not supported here."""
    if value in _UNSUPPORTED_INITS:
        raise ValueError(f"is not supported: it {_UNSUPPORTED_INITS[value]}")
    if value not in INIT_WORDS[:4] and value != "olora" and not _PISSA_NITER.fullmatch(value):
        raise _InitWordError("is not one of the legal values")


def check_module_pattern(patterns: Mapping[str, object]) -> None:
    """Raise ValueError for a key that is not a regular expression, as PEFT reads it."""
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"`{pattern}` is not a regular expression: {error}") from None


class Adapter(Declaration):
    """The weights to train: an adapter, all weights, or a part of them."""

    type: Annotated[AdapterType, BeforeValidator(_refuse_learned_prompts)] = Field(
        default="lora",
        description="full trains all weights, or those of `trainable` and `freeze`; lora a LoRA adapter;"
        " qlora a LoRA adapter over 4-bit weights; ia3 one factor for each output of a module; oft"
        " orthogonal rotations; vera scales of shared random matrices.",
    )
    trainable: Items[str] = Field(
        default=(),
        description="Weights to train, by patterns of their names such as `model.layers.3.*`. Default: all.",
    )
    freeze: Items[str] = Field(
        default=(),
        description="Weights to keep unchanged, by patterns of their names such as `model.embed_tokens.*`.",
    )
    r: int | None = Field(
        default=None,
        ge=1,
        description="Rank of the adapter's matrices. Default: 16; for vera, whose matrices are shared, 256.",
    )
    lora_alpha: float = Field(
        default=32.0, gt=0, description="Scaling of the LoRA update, which is multiplied by lora_alpha / r."
    )
    use_rslora: bool = Field(
        default=False,
        description="Scale the LoRA update by lora_alpha / sqrt(r) (rsLoRA) instead. Use it for high ranks.",
    )
    use_dora: bool = Field(
        default=False,
        description="Train the magnitude of each weight vector separately from its direction (DoRA). Better"
        " than LoRA at low ranks, but slower.",
    )
    lora_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="Dropout probability of the LoRA layers' input."
    )
    init_lora_weights: Annotated[str, checked_by(check_init_lora_weights)] = Field(
        default="default",
        description="Initialization of the LoRA matrices: default, gaussian, orthogonal, pissa (principal"
        " components of the weights), pissa_niter_N (the same with N fast iterations), or olora. The last"
        " three change the base weights too; the product is a plain LoRA of rank 2r for the unchanged base"
        " model.",
    )
    loraplus_lr_ratio: float | None = Field(
        default=None,
        ge=1,
        description="Learning rate of the LoRA matrix B divided by that of A (LoRA+), such as 16. Default:"
        " one rate for both.",
    )
    bias: Literal["none", "all", "lora_only"] = Field(
        default="none",
        description="Biases to train as well: none, all, or lora_only for those of the target modules.",
    )
    target_modules: Literal["auto", "all-linear"] | Items[str] = Field(
        default="auto",
        description="Modules that get an adapter: auto selects the attention projections of the architecture"
        " (for ia3: key, value and the last MLP layer), all-linear every linear module except the output"
        " layer.",
    )
    rank_pattern: Annotated[dict[str, Annotated[int, Field(ge=1)]], checked_by(check_module_pattern)] = Field(
        default_factory=dict[str, int],
        description="Ranks of single modules, by regular expressions that match the end of their names.",
    )
    alpha_pattern: Annotated[dict[str, Annotated[float, Field(gt=0)]], checked_by(check_module_pattern)] = (
        Field(
            default_factory=dict[str, float],
            description="lora_alpha of single modules, by regular expressions as in `rank_pattern`.",
        )
    )
    layers_to_transform: Items[int] = Field(
        default=(), description="Indices of the layers that get an adapter, from 0. Default: all layers."
    )
    layers_pattern: str | None = Field(
        default=None,
        description="Name of the module list that `layers_to_transform` counts, such as layers or h. Default:"
        " any of the usual names.",
    )
    modules_to_save: Items[str] = Field(
        default=(),
        description="Modules that are trained completely and saved with the adapter, such as embed_tokens and"
        " lm_head.",
    )
    trainable_token_indices: Literal["added"] | Items[int] = Field(
        default=(),
        description="Ids of the tokens whose embeddings are trained and saved with the adapter. `added`: the"
        " tokens that the model's `tokenizer` adds.",
    )
    feedforward_modules: Items[str] = Field(
        default=(),
        description="Target modules whose input, not output, is multiplied. Default: the last MLP layer.",
    )
    oft_block_size: int = Field(
        default=32,
        ge=1,
        description="Size of the blocks that are rotated. It must divide the modules' inputs.",
    )
    use_cayley_neumann: bool = Field(
        default=True,
        description="Approximate the inverse of the Cayley transform by a series, which is faster.",
    )
    module_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Probability to leave out blocks of the rotation during training.",
    )
    vera_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="Dropout probability of the VeRA layers' input."
    )
    d_initial: float = Field(default=0.1, description="Initial value of VeRA's scales d.")
    projection_prng_key: int = Field(
        default=0, ge=0, description="Seed of VeRA's shared random matrices, which are not trained."
    )
    existing_adapter: Literal["continue", "merge"] = Field(
        default="continue",
        description="If the model already has an adapter: continue training it, or merge it into the weights"
        " and train a new one.",
    )

    def check(self) -> None:
        if not self.target_modules:
            raise ValueError("target_modules is empty: name modules, or write auto or all-linear")
        for name, types in FIELD_TYPES.items():
            if self.type not in types and getattr(self, name) != fields_of(type(self))[name].default:
                reason = ", which trains all weights" if self.type == "full" else ""
                where = " and ".join((", ".join(types[:-1]), types[-1])) if types[:-1] else types[0]
                message = f"{name} has no effect with `type: {self.type}`{reason}; it belongs to {where}"
                raise ValueError(message)
        if self.layers_pattern is not None and not self.layers_to_transform:
            raise ValueError("layers_pattern has no effect without `layers_to_transform`")
        if self.init_lora_weights == "orthogonal" and any(
            r % 2 for r in (self.rank, *self.rank_pattern.values())
        ):
            raise ValueError("`init_lora_weights: orthogonal` needs an even rank")

    @property
    def rank(self) -> int:
        return self.r if self.r is not None else _DEFAULT_RANKS.get(self.type, _DEFAULT_RANK)

    @property
    def is_full(self) -> bool:
        return self.type == "full"

    @property
    def dropout(self) -> float:
        """The dropout probability of the adapter, whatever its type."""
        return max(self.lora_dropout, self.module_dropout, self.vera_dropout)

    @property
    def unshardable(self) -> str:
        """The setting with which DeepSpeed and FSDP cannot shard the model, or an empty string."""
        if self.type not in ("full", *_LORA):
            return f"type: {self.type}"
        if self.changes_base:
            return f"init_lora_weights: {self.init_lora_weights}"
        named = ("use_dora", "loraplus_lr_ratio", "trainable_token_indices", "modules_to_save")
        return next((name for name in named if getattr(self, name)), "")

    @property
    def changes_base(self) -> bool:
        """Whether the initialization changes the base weights: without the adapter, the model is another."""
        return self.init_lora_weights not in ("default", "gaussian", "orthogonal")

    def as_trained(self) -> "Adapter | None":
        """The adapter that the product of a stage has; None for full weights."""
        if self.is_full:
            return None
        if not self.changes_base:
            return self
        scale = 2**0.5 if self.use_rslora else 2
        changed = {
            "r": 2 * self.rank,
            "lora_alpha": scale * self.lora_alpha,
            "rank_pattern": {name: 2 * rank for name, rank in self.rank_pattern.items()},
            "alpha_pattern": {name: scale * alpha for name, alpha in self.alpha_pattern.items()},
            "init_lora_weights": "default",
        }
        return self.model_copy(update=changed)
