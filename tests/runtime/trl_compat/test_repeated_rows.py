"""Rows that accelerate repeats to complete the last micro-batches of several processes."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from accelerate import Accelerator
from accelerate.data_loader import BatchSamplerShard, skip_first_batches
from tests.runtime.trl_compat.necessity import obsolete

from posttrain.runtime.trl_compat.repeated_rows import unrepeated_rows_trainer
from posttrain.runtime.trl_compat.row_weighting import gathering_uneven_rows, row_weighting_trainer

_SIZE, _PROCESSES = 4, 2


def rows_of_process(rank: int, rows: int) -> list[list[int]]:
    sampler: Any = torch.utils.data.BatchSampler(range(rows), _SIZE, drop_last=False)
    shard: Any = BatchSamplerShard(sampler, num_processes=_PROCESSES, process_index=rank)
    return list(shard)


def test_accelerate_repeats_rows() -> None:
    rows = [row for rank in range(_PROCESSES) for batch in rows_of_process(rank, 11) for row in batch]
    assert len(rows) > len(set(rows)) == 11, obsolete("repeated_rows")


class FakeTrainer:
    """The last optimizer step of an epoch, in one of two processes."""

    def __init__(self, rank: int, rows: int, last: bool = True) -> None:
        self._batches = rows_of_process(rank, rows)
        # accelerate's own `remainder` is -1 in a resumed epoch.
        state = SimpleNamespace(end_of_dataloader=last, remainder=-1)
        self.accelerator = SimpleNamespace(num_processes=_PROCESSES, process_index=rank, gradient_state=state)
        self.args = SimpleNamespace(per_device_train_batch_size=_SIZE, dataloader_drop_last=False)
        self.train_dataset = range(rows)

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> tuple[Any, Any]:
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


def test_accelerate_has_no_remainder_in_a_resumed_epoch() -> None:
    """This is why the rows are counted here."""
    accelerator = Accelerator(cpu=True)
    loader: Any = accelerator.prepare(torch.utils.data.DataLoader(cast(Any, range(11)), batch_size=_SIZE))
    state = accelerator.gradient_state
    assert {state.remainder for _ in loader} == {3}
    assert {state.remainder for _ in skip_first_batches(loader, 1)} == {-1}, obsolete("repeated_rows")


class FakeRowTrainer(FakeTrainer):
    """The last optimizer step of a loss that is a mean over rows; pairs are stacked in one tensor."""

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> tuple[Any, Any]:
        batches = [torch.tensor(batch) for batch in self._batches]
        return [
            {"pairs": torch.cat([one, one + 100]), "texts": [str(row) for row in one.tolist()]}
            for one in batches
        ], None


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 7, 8, 9, 11, 12, 15, 16])
def test_the_mean_over_rows_has_each_row_once(rows: int) -> None:
    """The mean over the processes of the means over their weighted micro-batches."""
    kind: Any = row_weighting_trainer(FakeRowTrainer)
    mean = 0.0
    for rank in range(_PROCESSES):
        batches, _ = kind(rank, rows).get_batch_samples(None, 9, "cpu")
        for batch in batches:
            chosen, rejected = batch["pairs"].float().chunk(2)
            assert (rejected - chosen == 100).all()
            assert batch["texts"] == [str(int(row)) for row in chosen]
            mean += chosen.mean().item() * batch.get("row_weight", 1.0) / len(batches) / _PROCESSES
    assert mean == pytest.approx((rows - 1) / 2)


def test_rows_of_another_number_are_rejected() -> None:
    class Images(FakeRowTrainer):
        def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> tuple[Any, Any]:
            return [{"patches": torch.zeros(_SIZE * 3, 1)}], None

    with pytest.raises(ValueError, match="a micro-batch of 4 rows has a value with 12 rows"):
        row_weighting_trainer(Images)(1, 3).get_batch_samples(None, 9, "cpu")


def test_gathered_rows_of_different_lengths() -> None:
    ranks = [torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[4.0]])]
    calls: list[Any] = []

    def gather(own: Any) -> Any:
        """What the process with 3 rows gets from both."""
        calls.append(own)
        other = torch.tensor([1]) if own.dtype == torch.int64 else torch.cat([ranks[1], torch.zeros(2, 1)])
        return torch.cat([own, other])

    accelerator = SimpleNamespace(gather=gather)
    with gathering_uneven_rows(accelerator):
        found = accelerator.gather(ranks[0])
    assert found.tolist() == [[1.0], [2.0], [3.0], [4.0]]
    assert len(calls) == 2
