"""Weights the micro-batches of an optimizer step by their numbers of rows.

The losses of these trainers are means over the rows of a micro-batch, and the Trainer averages them over the
micro-batches and the processes. In the last step of an epoch, the last micro-batch can have fewer rows, and
each of them would weigh more: the result would depend on the micro-batch size. With several processes,
accelerate completes the last micro-batches with repeated rows: these are removed here. A process whose rows
are all repeated keeps one, with weight 0, so that it takes part in the communication.

The trainers gather a number for each row for their metrics, which requires equal numbers of rows in all
processes. In this step they gather tensors of different lengths.

Losses that are normalized by tokens (SFT) are not affected. See `repeated_rows`.

    transformers/trainer.py:2037 `Trainer.training_step`: `loss / self.current_gradient_accumulation_steps`
    trl/trainer/reward_trainer.py:804 `RewardTrainer.compute_loss`: `self.accelerator.gather(outputs.logits)`
"""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

from posttrain.runtime.trl_compat.repeated_rows import last_round_rows, own_rows

_WEIGHT = "row_weight"  # keys in a micro-batch
_UNEVEN = "uneven_rows"


def row_weighting_trainer(base: Any) -> Any:
    """Derive a trainer class that weights micro-batches by their rows."""

    class RowWeightingTrainer(base):
        def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[Any], Any]:
            micro_batches, tokens = super().get_batch_samples(*args, **kwargs)
            if tokens is None and (rows := last_round_rows(self)):
                _remove_repeated_rows(self, micro_batches, rows)
            elif tokens is None:
                counts = [_row_count(one) for one in micro_batches]
                _add_weights(micro_batches, counts, sum(counts))
            return micro_batches, tokens

        def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            weight, uneven = inputs.pop(_WEIGHT, None), inputs.pop(_UNEVEN, False)
            if not uneven:
                loss = super().compute_loss(model, inputs, *args, **kwargs)
            else:
                with gathering_uneven_rows(self.accelerator):
                    loss = super().compute_loss(model, inputs, *args, **kwargs)
            return loss if weight is None else loss * weight

    return RowWeightingTrainer


def _remove_repeated_rows(trainer: Any, micro_batches: list[dict[str, Any]], rows: int) -> None:
    """Remove the repeated rows of the last micro-batches, and weight all by the rows of all processes."""
    size, processes = trainer.args.per_device_train_batch_size, trainer.accelerator.num_processes
    own, earlier = own_rows(trainer, rows), len(micro_batches) - 1
    micro_batches[-1] = {
        name: first_rows(value, max(own, 1), size) for name, value in micro_batches[-1].items()
    }
    micro_batches[-1][_UNEVEN] = True
    mean = (earlier * size * processes + rows) / processes
    _add_weights(micro_batches, [*[size] * earlier, own], mean)


def _add_weights(micro_batches: list[dict[str, Any]], counts: list[int], step: float) -> None:
    """Add weights to micro-batches of different sizes; `step` is the mean number of rows of a process."""
    if any(count * len(counts) != step for count in counts):
        for one, count in zip(micro_batches, counts, strict=True):
            one[_WEIGHT] = count * len(counts) / step


def _row_count(micro_batch: dict[str, Any]) -> int:
    """Return a number in proportion to the rows: collators stack chosen and rejected in one tensor."""
    return next(len(value) for value in micro_batch.values() if getattr(value, "ndim", 0) > 0)


def first_rows(value: Any, count: int, size: int) -> Any:
    """Return the first rows of a value with `size` rows, or with two stacked parts of `size` rows."""
    import torch

    if not hasattr(value, "__len__") or isinstance(value, str) or getattr(value, "ndim", 1) == 0:
        return value
    if len(value) not in (size, 2 * size):
        raise ValueError(f"a micro-batch of {size} rows has a value with {len(value)} rows")
    parts = [value[start : start + count] for start in range(0, len(value), size)]
    return torch.cat(parts) if isinstance(value, torch.Tensor) else [row for part in parts for row in part]


@contextmanager
def gathering_uneven_rows(accelerator: Any) -> Generator[None]:
    """Let the accelerator gather tensors whose numbers of rows differ between the processes."""
    from accelerate.utils import recursively_apply

    gather = accelerator.gather

    def gather_uneven(data: Any) -> Any:
        return recursively_apply(partial(_gather_rows, gather), data, error_on_other_type=True)

    accelerator.gather = gather_uneven
    try:
        yield
    finally:
        accelerator.gather = gather


def _gather_rows(gather: Any, tensor: Any) -> Any:
    import torch

    if tensor.ndim == 0:
        return gather(tensor)
    counts = gather(torch.tensor([len(tensor)], device=tensor.device)).tolist()
    missing = tensor.new_zeros((max(counts) - len(tensor), *tensor.shape[1:]))
    parts = gather(torch.cat([tensor, missing])).split(max(counts))
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])
