"""The weights of a checkpoint, without its other state."""

from pathlib import Path

from tests.runtime.trl_compat.necessity import obsolete, public_names
from tests.runtime.trl_compat.tiny_trainer import tiny_trainer
from transformers import Trainer

from posttrain.runtime.trl_compat.checkpoint_weights import load_checkpoint_weights


def test_the_trainer_has_no_public_method_for_it() -> None:
    assert public_names(Trainer, "load_", "checkpoint") == set(), obsolete("checkpoint_weights")


def test_the_weights_are_loaded_and_nothing_else(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, learning_rate=0.1)
    trainer.train()
    last = trainer.model.layer.weight.clone()
    load_checkpoint_weights(trainer, tmp_path / "checkpoint-1", "single")
    assert not trainer.model.layer.weight.equal(last)
    assert trainer.state.global_step == 2
    load_checkpoint_weights(trainer, tmp_path / "checkpoint-2", "ddp")
    assert trainer.model.layer.weight.equal(last)
