"""The shape of a model from the configuration file next to its weights."""

from collections.abc import Mapping
from typing import Any, cast

from posttrain.spec.architectures.model_shapes import Shape, find_architecture
from posttrain.spec.architectures.transformers_config import CONFIG_KEYS

# Experts, linear attention and the variants of Falcon need more values than this module reads.
_SUPPORTED_NAMES = ("split", "phi3", "gpt2", "neox", "bloom")
_MAX_SIZE = 2**40  # larger numbers are not sizes of a model, and overflow in the predictions
_DEFAULT_POSITIONS = 2048  # for a model without a table of positions


def shape_from_config(name: str, config: Mapping[str, Any]) -> Shape | None:
    """Return the shape, or None if the architecture is unknown or the configuration is incomplete."""
    inner = config.get("text_config")
    return _shape(name, cast("Mapping[str, Any]", inner) if isinstance(inner, dict) else config)


def _shape(name: str, config: Mapping[str, Any]) -> Shape | None:
    arch = find_architecture(str(config.get("model_type", "")))
    if (
        arch is None
        or arch.mlp != "dense"
        or arch.names not in _SUPPORTED_NAMES
        or _has_linear_attention(config)
    ):
        return None
    renamed = CONFIG_KEYS.get(arch.model_type, {})

    def number(key: str, otherwise: int | None = None) -> int:
        value = config.get(renamed.get(key, key))
        value = otherwise if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MAX_SIZE:
            raise ValueError(key)
        return value

    try:
        hidden, heads = number("hidden_size"), number("num_attention_heads")
        return Shape(
            name=name,
            architecture=arch,
            layers=number("num_hidden_layers"),
            hidden=hidden,
            intermediate=number("intermediate_size", 4 * hidden),
            heads=heads,
            kv_heads=number("num_key_value_heads", heads),
            head_dim=number("head_dim", hidden // heads),
            vocab=number("vocab_size"),
            positions=number("max_position_embeddings", _DEFAULT_POSITIONS),
            tied=bool(config.get("tie_word_embeddings", arch.tied)),
            window=_sliding_window(config),
            full_every=_full_every(config),
        )
    except ValueError:
        return None


def _has_linear_attention(config: Mapping[str, Any]) -> bool:
    return "linear_attention" in _layer_types(config)


def _layer_types(config: Mapping[str, Any]) -> list[Any]:
    kinds: Any = config.get("layer_types")
    return cast("list[Any]", kinds) if isinstance(kinds, list) else []


def _sliding_window(config: Mapping[str, Any]) -> int:
    used = config.get("use_sliding_window", True)
    return int(config.get("sliding_window") or 0) if used else 0


def _full_every(config: Mapping[str, Any]) -> int:
    """Return the distance between layers with full attention, from the first such layer."""
    kinds = _layer_types(config)
    if not _sliding_window(config) or "sliding_attention" not in kinds or "full_attention" not in kinds:
        return 1
    return kinds.index("full_attention") + 1
