"""Excludes rows that accelerate repeats from losses that are normalized by tokens (SFT).

If the rows do not fill the last micro-batches of all processes, accelerate completes these with rows from the
start of the epoch, which are then trained on twice. Here the labels of the repeated rows are ignored, and the
tokens of the step are counted again. Losses that are means over rows are not affected by labels: they still
include the repeated rows. Packed sequences are not separate rows of a micro-batch, and are left as they are.

    accelerate/data_loader.py:266 `BatchSamplerShard._iter_with_no_split`: `batch += initial_data[`
"""

from typing import Any

_IGNORE_INDEX = -100  # the label of a token that the loss ignores


def unrepeated_rows_trainer(base: Any) -> Any:
    """Derive a trainer class that ignores the labels of repeated rows."""

    class UnrepeatedRowsTrainer(base):
        def get_batch_samples(
            self, epoch_iterator: Any, num_batches: int, device: Any
        ) -> tuple[list[Any], Any]:
            micro_batches, tokens = super().get_batch_samples(epoch_iterator, num_batches, device)
            accelerator, size = self.accelerator, self.args.per_device_train_batch_size
            remainder = last_round_rows(accelerator)
            if tokens is None or remainder == 0 or len(micro_batches[-1]["labels"]) != size:
                return micro_batches, tokens
            own = min(max(remainder - accelerator.process_index * size, 0), size)
            micro_batches[-1]["labels"][own:] = _IGNORE_INDEX
            return micro_batches, self._get_num_items_in_batch(micro_batches, device)

    return UnrepeatedRowsTrainer


def last_round_rows(accelerator: Any) -> int:
    """Return the rows in the last micro-batches of all processes, or 0 if these have no repeated rows.

    The value is the same in all processes.
    """
    state = accelerator.gradient_state
    if accelerator.num_processes == 1 or not state.end_of_dataloader:
        return 0
    return max(state.remainder, 0)
