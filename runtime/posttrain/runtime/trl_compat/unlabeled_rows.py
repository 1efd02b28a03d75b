"""Drops tokenized rows without a token to train on from the dataset of TRL's experimental trainers.

These trainers divide by the number of such tokens, which gives a NaN loss. Truncation to `max_length` can
leave a row without any.

    trl/experimental/cpo/cpo_trainer.py:788 `CPOTrainer.get_batch_logps`: `/ loss_mask.sum(-1)`
    trl/experimental/orpo/orpo_trainer.py:741 `ORPOTrainer.get_batch_logps`: `/ loss_mask.sum(-1)`
"""

from itertools import pairwise
from typing import Any

_LABEL_COLUMNS = ("chosen_labels", "rejected_labels")
_BATCH_ROWS = 10_000
_IGNORE_INDEX = -100  # the label of a token that the loss ignores


def drop_unlabeled_rows(trainer: Any) -> None:
    """Replace the trainer's dataset by its rows with tokens to train on, if its rows have labels."""
    trainer.train_dataset = labeled_rows(trainer.train_dataset)


def labeled_rows(data: Any) -> Any:
    """Return the tokenized rows with tokens to train on. Rows without label columns are all returned."""
    names = [name for name in _LABEL_COLUMNS if name in data.column_names]
    if not names or len(data) == 0:
        return data
    trainable: list[int] = []
    start = 0
    for tokens in data.select_columns(names).with_format("arrow").iter(_BATCH_ROWS):
        last = [_last_labels(tokens[name].combine_chunks()) for name in names]
        trainable += (
            start + row
            for row in range(tokens.num_rows)
            if all(labels[row] != _IGNORE_INDEX for labels in last)
        )
        start += tokens.num_rows
    return data if len(trainable) == len(data) else data.select(trainable)


def _last_labels(lists: Any) -> list[int]:
    """Return the last label of each row, and the ignore index for a row without labels."""
    ends, values = lists.offsets.to_pylist(), lists.values
    return [values[end - 1].as_py() if end > start else _IGNORE_INDEX for start, end in pairwise(ends)]
