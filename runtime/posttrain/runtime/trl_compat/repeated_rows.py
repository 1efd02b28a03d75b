"""Excludes rows that accelerate repeats from losses that are normalized by tokens (SFT).

If the rows do not fill the last micro-batches of all processes, accelerate completes these with rows from the
start of the epoch, which are then trained on twice. Here the labels of the repeated rows are ignored, and the
tokens of the step are counted again. `row_weighting` excludes them from losses that are means over rows.
Packed sequences are not separate rows of a micro-batch, and are left as they are.

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
            size = self.args.per_device_train_batch_size
            rows = last_round_rows(self)
            if tokens is None or rows == 0 or len(micro_batches[-1]["labels"]) != size:
                return micro_batches, tokens
            micro_batches[-1]["labels"][own_rows(self, rows) :] = _IGNORE_INDEX
            return micro_batches, self._get_num_items_in_batch(micro_batches, device)

    return UnrepeatedRowsTrainer


def last_round_rows(trainer: Any) -> int:
    """Return the rows in the last micro-batches of all processes, or 0 if these have no repeated rows.

    The value is the same in all processes. accelerate has no count of its own in a resumed epoch.
    """
    accelerator, args = trainer.accelerator, trainer.args
    if (
        accelerator.num_processes == 1
        or args.dataloader_drop_last
        or not accelerator.gradient_state.end_of_dataloader
    ):
        return 0
    return len(trainer.train_dataset) % (args.per_device_train_batch_size * accelerator.num_processes)


def own_rows(trainer: Any, rows: int) -> int:
    """Return how many of the `rows` in the last micro-batches belong to this process. They come first."""
    size = trainer.args.per_device_train_batch_size
    return min(max(rows - trainer.accelerator.process_index * size, 0), size)
