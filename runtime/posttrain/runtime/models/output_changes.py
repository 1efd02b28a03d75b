"""Whether the outputs of a row change with what should not matter: other rows, or padding.

Rounding changes outputs too, so the changes are compared with limits.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

_ROW_TOKENS = 16
# Limits of the mean difference of the outputs, in their standard deviations. Other tokens that are hidden
# change nothing at all, except the rounding in a mixture of experts, whose matrix sizes they determine.
_OTHER_LIMIT = 1e-3
_HALF_EXPERTS_LIMIT = 2e-2
# A row alone has other matrix sizes, so the rounding differs: in float32 (with TF32), and in half precision.
_ALONE_LIMITS = (1e-2, 1e-1)
_EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts")


class OutputChanges(NamedTuple):
    """The mean change of a row's outputs, in their standard deviations."""

    other: float  # if the tokens before it are others
    alone: float  # if no tokens are before it


def changes_between(after: Any, after_other: Any, alone: Any) -> OutputChanges:
    """Compare the outputs of a row after some tokens, after other tokens, and alone."""
    import torch

    deviation = float(torch.std(after))

    def change(outputs: Any) -> float:
        return float((outputs - after).abs().mean()) / deviation

    return OutputChanges(other=change(after_other), alone=change(alone))


def exceed_rounding(changes: OutputChanges, config: Any, *, half: bool) -> bool:
    """Whether the changes are larger than those of rounding; `half` is whether it is in half precision."""
    has_experts = any(getattr(config.get_text_config(), key, None) for key in _EXPERT_KEYS)
    limit = _HALF_EXPERTS_LIMIT if half and has_experts else _OTHER_LIMIT
    # `not <=` also finds NaN
    return not (changes.other <= limit and changes.alone <= _ALONE_LIMITS[half])


def probe_rows(tokenizer: Any) -> Sequence[Sequence[int]]:
    """Three rows of ordinary tokens, which differ in every place if the vocabulary is large enough."""
    special = set(tokenizer.all_special_ids)
    usual = sorted(set(tokenizer.get_vocab().values()) - special)
    return [
        [usual[(place * len(usual)) // (3 * _ROW_TOKENS)] for place in range(row, 3 * _ROW_TOKENS, 3)]
        for row in range(3)
    ]
