"""The shape of a model created with `init`: the values of the recipe, and defaults for the others.

The defaults are those of the recipe language (as many key/value heads as heads, an MLP four times as wide,
tied embeddings). Other values come from the configuration of the family in transformers: the number and width
of experts, and the layers with a window or linear attention.
"""

from posttrain.spec.architectures.model_shapes import (
    Architecture,
    Shape,
    architecture_names,
    find_architecture,
)

_DEFAULTS: dict[str, dict[str, int]] = {
    "mixtral": {"experts": 8, "active_experts": 2},
    "phimoe": {"experts": 16, "active_experts": 2},
    "llama4_text": {"experts": 16, "active_experts": 1, "window": 8192, "full_every": 4},
    "qwen3_moe": {"experts": 128, "active_experts": 8, "expert_width": 768},
    "qwen3_5_text": {"full_every": 4, "linear_keys": 16, "linear_values": 32, "linear_dim": 128},
    "mistral": {"window": 4096},
    "gemma2": {"window": 4096, "full_every": 2},
    "gemma3_text": {"window": 4096, "full_every": 6},
    "olmo3": {"window": 4096, "full_every": 4},
}


def init_model_types() -> list[str]:
    """Return the architectures that `init` supports, by their names in transformers."""
    return [name for name in architecture_names() if _init_architecture(name) is not None]


def _init_architecture(name: str) -> Architecture | None:
    found = find_architecture(name)
    return found if found is not None and found.model_type == name else None


def shape_from_init(
    family: str,
    *,
    layers: int,
    hidden: int,
    heads: int,
    vocab: int,
    kv_heads: int | None = None,
    intermediate: int | None = None,
    context: int = 512,
    tied: bool = True,
) -> Shape | None:
    """Return the shape, or None if the family is unknown; the caller reports that."""
    arch = _init_architecture(family)
    if arch is None:
        return None
    if arch.name == "phimoe":
        arch = arch._replace(bias=())  # its published models have biases, the default configuration has none
    width = 4 * hidden if intermediate is None or arch.names == "bloom" else intermediate
    own = dict(_DEFAULTS.get(arch.name, {}))
    if "experts" in own:
        own.setdefault("expert_width", width)
        own["shared_width"] = width if arch.every_expert else 0
    return Shape(
        name=f"{family} from scratch",
        architecture=arch,
        layers=layers,
        hidden=hidden,
        intermediate=width,
        heads=heads,
        kv_heads=_kv_heads(arch, heads, kv_heads),
        head_dim=hidden // heads,
        vocab=vocab,
        positions=context,
        tied=tied,
        **own,
    )


def _kv_heads(arch: Architecture, heads: int, requested: int | None) -> int:
    """Return the number of key/value heads: one for Falcon, and all heads for families without grouping."""
    if arch.name == "falcon":
        return 1
    return heads if arch.names in ("gpt2", "neox", "bloom") else requested or heads
