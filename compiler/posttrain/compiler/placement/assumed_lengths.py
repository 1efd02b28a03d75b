"""Assumptions about lengths that are not known before the run. The plan lists them."""

from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.inference import Sampling

ASSUMED_PROMPT_TOKENS = 512  # tokens of the longest prompt before a completion
MEAN_ROW_SHARE = 0.6  # mean row length, as a share of the maximum
MEAN_COMPLETION_SHARE = 0.7  # mean completion length, as a share of the maximum


def assumed_prompt_tokens(shape: Shape, sampling: Sampling) -> int:
    """Return the assumed length of the longest prompt of an eval."""
    return max(1, min(ASSUMED_PROMPT_TOKENS, shape.positions - sampling.max_tokens))
