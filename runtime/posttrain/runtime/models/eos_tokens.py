"""Where a model's completions end."""

from typing import Any


def eos_token_ids(model: Any, tokenizer: Any) -> list[int]:
    """The tokens after which the model says no more."""
    configured = model.generation_config.eos_token_id
    several = configured if isinstance(configured, list) else [configured]
    return sorted({end for end in (*several, tokenizer.eos_token_id) if end is not None})
