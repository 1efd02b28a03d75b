"""Reads the context length of a model from its configuration."""

from typing import Any

_NO_LIMIT = 1 << 30


def context_length(model: Any) -> int:
    """Return the context length in tokens of a model, or of another object with its `config`."""
    config = model.config.get_text_config()
    for name in ("max_position_embeddings", "n_positions", "seq_length"):
        length = getattr(config, name, None)
        if isinstance(length, int):
            return length
    return _NO_LIMIT
