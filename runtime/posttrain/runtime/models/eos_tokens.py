"""Collects the end tokens of a model."""

from typing import Any


def eos_token_ids(model: Any, tokenizer: Any) -> list[int]:
    """Return the end tokens of the model's generation config and of the tokenizer."""
    return merge_eos_token_ids(model.generation_config.eos_token_id, tokenizer)


def merge_eos_token_ids(configured: Any, tokenizer: Any) -> list[int]:
    """Return the end tokens of a generation config (one, several or none) and of the tokenizer."""
    several = configured if isinstance(configured, list) else [configured]
    return sorted({end for end in (*several, tokenizer.eos_token_id) if end is not None})
