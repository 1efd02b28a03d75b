"""The batches of an evaluation, one by one."""

from pathlib import Path
from typing import Any

import pytest
from accelerate.data_loader import BatchSamplerShard
from tests.runtime.trl_compat.necessity import obsolete
from tests.runtime.trl_compat.tiny_trainer import tiny_trainer
from torch.utils.data import BatchSampler, SequentialSampler
from transformers import Trainer

from posttrain.runtime.trl_compat.row_metrics import recording_trainer


class StoringTrainer(Trainer):
    """Stores a metric of each batch as TRL's trainers do: the mean over its rows and over all processes."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._metrics: dict[str, dict[str, list[float]]] = {"eval": {}}

    def prediction_step(self, model: Any, inputs: Any, *arguments: Any, **named: Any) -> Any:
        gathered: Any = self.accelerator.gather_for_metrics(inputs["x"].mean())
        value = float(gathered)
        self._metrics["eval"].setdefault("x", []).append(value)
        return super().prediction_step(model, inputs, *arguments, **named)


def evaluating_trainer(folder: Path, **arguments: Any) -> Any:
    trainer = tiny_trainer(folder, recording_trainer(StoringTrainer), label_names=[], **arguments)
    trainer.eval_dataset = trainer.train_dataset
    trainer.can_return_loss = True
    return trainer


def test_processes_get_repeated_rows() -> None:
    batches = BatchSampler(SequentialSampler(range(5)), 2, drop_last=False)
    shards = [BatchSamplerShard(batches, num_processes=2, process_index=rank) for rank in range(2)]
    rows = [row for shard in shards for batch in shard for row in batch or ()]
    assert sorted(rows) != [0, 1, 2, 3, 4], obsolete("row_metrics")


def test_each_batch_is_recorded_with_its_rows(tmp_path: Path) -> None:
    trainer = evaluating_trainer(tmp_path, per_device_eval_batch_size=3)
    found = trainer.evaluate_batches()
    assert [(one.number, one.rows) for one in found] == [(0, 3), (1, 3), (2, 2)]
    assert [one.metrics["x"] for one in found] == [1.0, 4.0, 6.5]
    assert trainer._metrics["eval"] == {}
    weighted = sum(one.loss * one.rows for one in found) / 8
    trainer.args.per_device_eval_batch_size = 8
    (whole,) = trainer.evaluate_batches()
    assert whole.loss == pytest.approx(weighted)


def test_the_gathering_methods_are_restored(tmp_path: Path) -> None:
    trainer = evaluating_trainer(tmp_path)
    gather = trainer.accelerator.gather_for_metrics
    trainer.evaluate_batches()
    assert trainer.accelerator.gather_for_metrics == gather
