"""Whether a merged model answers as its adapter did."""

from typing import Any

from posttrain.runtime.errors import StepError

# The largest difference of a logit that rounding explains, as a share of the largest logit.
_TOLERANCE = {"torch.float32": 1e-4, "torch.float16": 1e-2, "torch.bfloat16": 5e-2}


def probe_tokens(vocabulary: int) -> Any:
    """Sequences of tokens that both are asked about; the same for the same vocabulary."""
    import torch

    draw = torch.Generator().manual_seed(0)
    return torch.randint(vocabulary, (4, 24), generator=draw)


def check_merged_logits(expected: Any, found: Any, dtype: str) -> float:
    """The largest difference between two sets of logits, over the largest logit; too much is a fault."""
    difference = float((expected - found).abs().max() / expected.abs().max().clamp(min=1e-9))
    limit = _TOLERANCE[dtype]
    if not difference <= limit:  # what is not a number disagrees too
        raise StepError(
            f"the merged model's logits differ from the adapter's by {difference:.2g} of the largest, and"
            f" {dtype.removeprefix('torch.')} explains {limit:g}",
            "export the adapter alone with `merge: false`, or keep the base in float32 (`dtype: float32`)",
        )
    return difference
