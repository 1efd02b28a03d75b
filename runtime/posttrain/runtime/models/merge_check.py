"""Checks that a merged model has the same logits as its adapter."""

from typing import Any

from posttrain.runtime.errors import StepError

# The largest logit difference that rounding explains, relative to the largest logit.
_TOLERANCE = {"torch.float32": 1e-4, "torch.float16": 1e-2, "torch.bfloat16": 5e-2}


def probe_tokens(vocabulary: int) -> Any:
    """Return random token sequences for the comparison; they depend only on the vocabulary size."""
    import torch

    draw = torch.Generator().manual_seed(0)
    return torch.randint(vocabulary, (4, 24), generator=draw)


def check_merged_logits(expected: Any, found: Any, dtype: str) -> float:
    """Return the largest difference of two sets of logits relative to the largest logit.

    Raises StepError if rounding in this dtype does not explain the difference.
    """
    difference = float((expected - found).abs().max() / expected.abs().max().clamp(min=1e-9))
    limit = _TOLERANCE[dtype]
    if not difference <= limit:  # also true for NaN
        raise StepError(
            f"the merged model's logits differ from the adapter's by {difference:.2g} of the largest logit;"
            f" rounding in {dtype.removeprefix('torch.')} explains at most {limit:g}",
            "export the adapter without merging (`merge: false`), or load the base model in float32"
            " (`dtype: float32`)",
        )
    return difference
