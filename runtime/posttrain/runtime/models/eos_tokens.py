"""Where a model's completions end."""

from typing import Any


def eos_token_ids(model: Any, tokenizer: Any) -> list[int]:
    """The tokens after which the model says no more."""
    told = model.generation_config.eos_token_id
    several = told if isinstance(told, list) else [told]
    return sorted({end for end in (*several, tokenizer.eos_token_id) if end is not None})
