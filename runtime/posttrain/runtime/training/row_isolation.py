"""Measures before the first step whether the model keeps packed rows apart.

Packed rows are one sequence without an attention mask. Attention starts again where the positions start
again. Other layers, such as linear attention without its kernels, mix the rows without an error.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from posttrain.runtime.errors import StepError

_ROW_TOKENS = 16
# Limits of the mean difference of the logits, in their standard deviations. Other tokens in the row before
# change nothing at all, except the rounding in a mixture of experts, whose matrix sizes they determine.
_OTHER_ROW_LIMIT = 1e-3
_HALF_EXPERTS_LIMIT = 2e-2
# A row alone has other matrix sizes, so the rounding differs: in float32 (with TF32), and in half precision.
_ALONE_LIMITS = (1e-2, 1e-1)
_EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts")


class RowIsolation(NamedTuple):
    """The mean change of a row's logits, in their standard deviations."""

    other_row: float  # if the row before it has other tokens
    alone: float  # if no row is before it


def check_row_isolation(trainer: Any) -> None:
    """Raise StepError if the outputs of a packed row depend on the row before it."""
    import torch

    with torch.no_grad():
        found = measure_row_isolation(
            trainer.model_wrapped, trainer.data_collator, probe_rows(trainer.processing_class)
        )
    config = trainer.model.config
    half = trainer.args.bf16 or trainer.args.fp16 or trainer.model.dtype != torch.float32
    has_experts = any(getattr(config.get_text_config(), key, None) for key in _EXPERT_KEYS)
    limit = _HALF_EXPERTS_LIMIT if half and has_experts else _OTHER_ROW_LIMIT
    # `not <=` also rejects NaN
    if not (found.other_row <= limit and found.alone <= _ALONE_LIMITS[half]):
        raise StepError(
            f"the model (`{config.model_type}`, attention `{config._attn_implementation}`) does not keep"
            f" packed rows apart: the outputs of a row change by {max(found):.1%} of their standard deviation"
            " with the row before it",
            "set `packing: false`, and remove `padding_free: true` under `trl`; or install the kernels that"
            " keep the rows apart: flash-linear-attention and causal-conv1d for linear attention",
        )


def measure_row_isolation(model: Any, collator: Any, rows: Sequence[Sequence[int]]) -> RowIsolation:
    """Measure how the logits of the third row change if it follows the first row, the second one, or none."""
    import torch

    training = model.training
    model.eval()
    try:
        first, other, row = (list(tokens) for tokens in rows)
        after = _last_row_logits(model, collator, [first, row])
        after_other = _last_row_logits(model, collator, [other, row])
        alone = _last_row_logits(model, collator, [row])
    finally:
        model.train(training)
    deviation = float(torch.std(after))

    def change(logits: Any) -> float:
        return float((logits - after).abs().mean()) / deviation

    return RowIsolation(other_row=change(after_other), alone=change(alone))


def _last_row_logits(model: Any, collator: Any, rows: Sequence[Sequence[int]]) -> Any:
    """The logits of the last of several packed rows, with the arguments that the trainer passes."""
    tokens = [token for row in rows for token in row]
    batch: Mapping[str, Any] = collator(
        [{"input_ids": tokens, "labels": tokens, "seq_lengths": [len(row) for row in rows]}]
    )
    device = next(model.parameters()).device
    inputs = {
        name: value.to(device) if hasattr(value, "to") else value
        for name, value in batch.items()
        if name != "labels"
    }
    start = len(tokens) - len(rows[-1])
    return model(**inputs, use_cache=False).logits[0, start : len(tokens)].float()


def probe_rows(tokenizer: Any) -> Sequence[Sequence[int]]:
    """Three rows of ordinary tokens, which differ in every place if the vocabulary is large enough."""
    special = set(tokenizer.all_special_ids)
    usual = sorted(set(tokenizer.get_vocab().values()) - special)
    return [
        [usual[(place * len(usual)) // (3 * _ROW_TOKENS)] for place in range(row, 3 * _ROW_TOKENS, 3)]
        for row in range(3)
    ]
