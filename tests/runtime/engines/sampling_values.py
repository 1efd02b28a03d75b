"""Values of all sampling options, for tests of engines."""

from typing import Any


def greedy_sampling(**changes: Any) -> dict[str, Any]:
    """One greedy completion of at most 8 tokens, 8 prompts at a time, with these changes."""
    return {
        "temperature": 0.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "max_tokens": 8,
        "n": 1,
        "batch_size": 8,
        "stop": [],
        "continuous_batching": False,
        **changes,
    }
