"""The shape of a model: the numbers that decide its parameters, its memory and its time.

`shape_from_init` returns the shape of a model that a recipe creates; the compiler knows the shapes of
published models. Everything else about a model, such as its parameter counts and its configuration, is
computed from the frozen `Shape`.
"""

import functools
import json
import pkgutil
from typing import Any, Literal, NamedTuple


class Architecture(NamedTuple):
    """The properties that all models of an architecture share, independent of their size."""

    name: str
    model_type: str
    norm: Literal["rms", "rms_wide", "layer"]
    # The position of the norms: before attention and MLP; before and after both; only after;
    # two norms of the same tensor (parallel branches); one norm for both branches.
    norms: Literal["before", "sandwich", "after", "shared_input", "single"]
    qk_norm: Literal["none", "head", "width", "plain"]
    names: Literal["split", "phi3", "gpt2", "neox", "bloom", "falcon"]
    mlp: Literal["dense", "experts"]
    activation: Literal["silu", "gelu_tanh", "gelu", "gelu_steps"]
    positions: Literal["rope", "learned", "alibi"]
    rope: Literal["rotated", "concatenated", "none"]
    attention: Literal["fused", "alibi", "plain", "masked", "masked_once"]
    bias: tuple[str, ...]
    gated_query: bool
    softcap: bool
    every_expert: bool  # computes all experts for every token and weights the results
    dropout: bool
    tied: bool
    isolates_rows: bool  # whether packed rows do not affect each other (perf/row_isolation.md)
    lora: tuple[str, ...]

    @property
    def gated(self) -> bool:
        return self.names in ("split", "phi3")

    @property
    def ia3_modules(self) -> tuple[str, ...]:
        """The modules that IA3 multiplies by default: key, value, and the last layer of a dense MLP."""
        attention, mlp = {
            "split": (("k_proj", "v_proj"), "down_proj"),
            "phi3": (("qkv_proj",), "down_proj"),
            "gpt2": (("c_attn",), "mlp.c_proj"),
        }.get(self.names, (("query_key_value",), "dense_4h_to_h"))
        return (*attention, mlp) if self.mlp == "dense" else attention

    @property
    def ia3_feedforward_modules(self) -> tuple[str, ...]:
        """Those of `ia3_modules` whose input is multiplied."""
        return self.ia3_modules[-1:] if self.mlp == "dense" else ()


class Shape(NamedTuple):
    """One model. All fields count elements, not bytes."""

    name: str
    architecture: Architecture
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    positions: int
    tied: bool
    window: int = 0  # tokens in the window of a sliding-window layer; 0: no window
    full_every: int = 1  # every n-th layer has full attention, the others are windowed or linear
    experts: int = 0
    active_experts: int = 0
    expert_width: int = 0
    shared_width: int = 0  # an expert that every token passes through
    experts_every: int = 1  # every n-th layer has experts, the others have a dense MLP
    linear_keys: int = 0  # heads of linear attention; 0: the architecture has none
    linear_values: int = 0
    linear_dim: int = 128

    @property
    def computed_experts(self) -> int:
        return self.experts if self.architecture.every_expert else self.active_experts

    @property
    def query_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim


@functools.cache
def find_architecture(name: str) -> Architecture | None:
    """Return an architecture by its `model_type` in transformers, with or without `_text`."""
    rows = _architecture_rows()
    key = next((k for k in (name, f"{name}_text") if k in rows), None)
    if key is None:
        return None
    row = rows[key]
    names = row.get("names", "split")
    return Architecture(
        name=key,
        model_type=row.get("model_type", key),
        norm=row["norm"],
        norms=row.get("norms", "before"),
        qk_norm=row.get("qk_norm", "none"),
        names=names,
        mlp=row.get("mlp", "dense"),
        activation=row.get("activation", "silu"),
        positions=row.get("positions", "rope"),
        rope=row.get("rope", "rotated"),
        attention=row.get("attention", "fused"),
        bias=tuple(row.get("bias", ())),
        gated_query=row.get("gated_query", False),
        softcap=row.get("softcap", False),
        every_expert=row.get("every_expert", False),
        dropout=row.get("dropout", False),
        tied=row.get("tied", False),
        isolates_rows=row.get("isolates_rows", True),
        lora=tuple(row["lora"]),
    )


def architecture_names() -> tuple[str, ...]:
    return tuple(_architecture_rows())


@functools.cache
def _architecture_rows() -> dict[str, dict[str, Any]]:
    # `importlib.resources` would take longer to import than the table takes to read.
    text = pkgutil.get_data(__package__ or "", "architectures.json")
    assert text is not None, "the package contains the table of architectures"
    return json.loads(text)
