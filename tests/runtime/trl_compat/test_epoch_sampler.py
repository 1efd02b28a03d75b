"""The order of the rows in each epoch, in a run that is resumed."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from accelerate.data_loader import prepare_data_loader
from tests.runtime.trl_compat.necessity import obsolete
from tests.runtime.trl_compat.tiny_trainer import tiny_trainer
from transformers import Trainer
from trl.trainer.utils import RepeatSampler

from posttrain.runtime.trl_compat.epoch_sampler import seed_sampler_by_epoch


def repeat_sampler() -> RepeatSampler:
    return RepeatSampler(list(range(20)), mini_repeat_count=2, batch_size=4, seed=3)


def test_trl_repeats_the_order_of_the_first_epoch_after_a_resume() -> None:
    assert not hasattr(RepeatSampler, "set_epoch"), obsolete("epoch_sampler")
    uninterrupted, resumed = repeat_sampler(), repeat_sampler()
    first, second = list(uninterrupted), list(uninterrupted)
    assert first != second
    assert list(resumed) == first, obsolete("epoch_sampler")


def test_a_resumed_run_has_the_order_of_its_epoch() -> None:
    made = SimpleNamespace(_get_train_sampler=repeat_sampler)
    set_epoch = seed_sampler_by_epoch(made)
    sampler = made._get_train_sampler()
    orders: list[list[int]] = []
    for epoch in range(3):
        set_epoch(epoch)
        orders.append(list(sampler))
    assert len({str(order) for order in orders}) == 3
    again = SimpleNamespace(_get_train_sampler=repeat_sampler)
    set_epoch = seed_sampler_by_epoch(again)
    resumed = again._get_train_sampler()
    set_epoch(2)
    assert list(resumed) == orders[2]


class RecordingSampler(torch.utils.data.Sampler[int]):
    def __init__(self) -> None:
        self.epochs: list[int] = []

    def __iter__(self) -> Iterator[int]:
        return iter(range(8))

    def __len__(self) -> int:
        return 8

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)


def test_the_trainer_of_several_processes_does_not_set_the_epoch_after_a_resume(tmp_path: Path) -> None:
    """So `seed_sampler_by_epoch` returns a function that does. The loader is that of one of two processes."""
    sampler: Any = RecordingSampler()

    class TwoProcessTrainer(Trainer):
        def get_train_dataloader(self) -> Any:
            plain: Any = torch.utils.data.DataLoader(self.train_dataset, batch_size=2, sampler=sampler)
            return prepare_data_loader(plain, num_processes=2, process_index=0, put_on_device=False)

    tiny_trainer(tmp_path, TwoProcessTrainer, max_steps=4).train()
    assert set(sampler.epochs) == {0, 1}
    sampler.epochs.clear()
    tiny_trainer(tmp_path, TwoProcessTrainer, max_steps=4).train(
        resume_from_checkpoint=str(tmp_path / "checkpoint-3")
    )
    assert sampler.epochs == [], obsolete("epoch_sampler's function that sets the epoch")
