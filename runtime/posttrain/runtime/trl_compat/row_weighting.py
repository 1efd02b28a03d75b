"""Weights the micro-batches of an optimizer step by their numbers of rows.

The losses of these trainers are means over the rows of a micro-batch, and the Trainer averages them over the
micro-batches. In the last step of an epoch, the last micro-batch can have fewer rows, and each of them would
weigh more: the result would depend on the micro-batch size. Losses that are normalized by tokens (SFT) are
not affected. With several processes, all micro-batches have the same size, because accelerate repeats rows.

    transformers/trainer.py:2037 `Trainer.training_step`: `loss / self.current_gradient_accumulation_steps`
"""

from typing import Any

_WEIGHT = "row_weight"  # key in a micro-batch


def row_weighting_trainer(base: Any) -> Any:
    """Derive a trainer class that weights micro-batches by their rows."""

    class RowWeightingTrainer(base):
        def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[Any], Any]:
            micro_batches, tokens = super().get_batch_samples(*args, **kwargs)
            if tokens is None:
                _add_weights(micro_batches)
            return micro_batches, tokens

        def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            weight = inputs.pop(_WEIGHT, None)
            loss = super().compute_loss(model, inputs, *args, **kwargs)
            return loss if weight is None else loss * weight

    return RowWeightingTrainer


def _add_weights(micro_batches: list[dict[str, Any]]) -> None:
    """Add a weight to micro-batches of different sizes. The mean of the weights is 1."""
    rows = [_row_count(one) for one in micro_batches]
    if len(set(rows)) > 1:
        for one, count in zip(micro_batches, rows, strict=True):
            one[_WEIGHT] = count * len(rows) / sum(rows)


def _row_count(micro_batch: dict[str, Any]) -> int:
    """Return a number in proportion to the rows: collators stack chosen and rejected in one tensor."""
    return next(len(value) for value in micro_batch.values() if getattr(value, "ndim", 0) > 0)
