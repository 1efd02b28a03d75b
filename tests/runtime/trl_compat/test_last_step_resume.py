"""A run that is resumed from its last step takes no further step."""

from pathlib import Path
from typing import Any

from tests.runtime.trl_compat.necessity import obsolete
from tests.runtime.trl_compat.tiny_trainer import tiny_trainer
from transformers import TrainerCallback

from posttrain.runtime.trl_compat.last_step_resume import TrainingComplete, run_trainer


class StopAtOnce(TrainerCallback):
    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        raise TrainingComplete


def test_the_trainer_takes_one_step_too_many(tmp_path: Path) -> None:
    tiny_trainer(tmp_path).train()
    resumed = tiny_trainer(tmp_path)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert resumed.state.global_step == 3, obsolete("last_step_resume")


def test_a_callback_ends_it_with_the_weights_of_the_checkpoint(tmp_path: Path) -> None:
    first = tiny_trainer(tmp_path, learning_rate=0.1)
    run_trainer(first, None)
    resumed = tiny_trainer(tmp_path, learning_rate=0.1)
    before = resumed.model.layer.weight.clone()
    resumed.add_callback(StopAtOnce())
    run_trainer(resumed, tmp_path / "checkpoint-2")
    assert resumed.model.layer.weight.equal(first.model.layer.weight)
    assert not resumed.model.layer.weight.equal(before)
