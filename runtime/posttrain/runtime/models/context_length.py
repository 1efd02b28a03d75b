"""How long a sequence a model takes."""

from typing import Any

_NO_LIMIT = 1 << 30


def context_length(model: Any) -> int:
    """The longest sequence that a model takes, in tokens; of a model, or of what holds its `config`."""
    config = model.config.get_text_config()
    for name in ("max_position_embeddings", "n_positions", "seq_length"):
        found = getattr(config, name, None)
        if isinstance(found, int):
            return found
    return _NO_LIMIT
