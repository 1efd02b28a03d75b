"""Rows that accelerate repeats to complete the last micro-batches of several processes."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate.data_loader import BatchSamplerShard
from tests.runtime.trl_compat.necessity import obsolete

from posttrain.runtime.trl_compat.repeated_rows import unrepeated_rows_trainer

_SIZE, _PROCESSES = 4, 2


def rows_of_process(rank: int, rows: int) -> list[list[int]]:
    sampler: Any = torch.utils.data.BatchSampler(range(rows), _SIZE, drop_last=False)
    return list(BatchSamplerShard(sampler, num_processes=_PROCESSES, process_index=rank))


def test_accelerate_repeats_rows() -> None:
    rows = [row for rank in range(_PROCESSES) for batch in rows_of_process(rank, 11) for row in batch]
    assert len(rows) > len(set(rows)) == 11, obsolete("repeated_rows")


class FakeTrainer:
    """The last optimizer step of an epoch, in one of two processes."""

    def __init__(self, rank: int, rows: int, last: bool = True) -> None:
        self._batches = rows_of_process(rank, rows)
        state = SimpleNamespace(end_of_dataloader=last, remainder=rows % (_SIZE * _PROCESSES))
        self.accelerator = SimpleNamespace(num_processes=_PROCESSES, process_index=rank, gradient_state=state)
        self.args = SimpleNamespace(per_device_train_batch_size=_SIZE)

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> tuple[Any, int]:
        batches = [{"labels": torch.tensor(batch)[:, None].repeat(1, 3)} for batch in self._batches]
        return batches, self._get_num_items_in_batch(batches, device)

    def _get_num_items_in_batch(self, batches: Any, device: Any) -> int:
        return int(sum((batch["labels"] != -100).sum() for batch in batches))


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 7, 8, 9, 11, 12, 15, 16])
def test_each_row_has_labels_once(rows: int) -> None:
    kind: Any = unrepeated_rows_trainer(FakeTrainer)
    seen: list[int] = []
    tokens = 0
    for rank in range(_PROCESSES):
        batches, counted = kind(rank, rows).get_batch_samples(None, 9, "cpu")
        seen += [int(row[0]) for batch in batches for row in batch["labels"] if row[0] != -100]
        tokens += counted
        assert all(len(batch["labels"]) == _SIZE for batch in batches), "the shapes stay equal"
    assert sorted(seen) == list(range(rows))
    assert tokens == 3 * rows


def test_other_steps_are_left_as_they_are() -> None:
    kind: Any = unrepeated_rows_trainer(FakeTrainer)
    batches, tokens = kind(1, 11, last=False).get_batch_samples(None, 9, "cpu")
    assert tokens == sum(batch["labels"].numel() for batch in batches)
