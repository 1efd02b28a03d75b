"""Collects the end tokens of a model."""

from typing import Any


def eos_token_ids(model: Any, tokenizer: Any) -> list[int]:
    """Return the end tokens of the model's generation config and of the tokenizer."""
    configured = model.generation_config.eos_token_id
    several = configured if isinstance(configured, list) else [configured]
    return sorted({end for end in (*several, tokenizer.eos_token_id) if end is not None})
