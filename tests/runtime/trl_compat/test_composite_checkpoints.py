"""The checkpoints of a trained module that holds several models."""

from pathlib import Path
from typing import Any

import torch
from tests.runtime.trl_compat.necessity import obsolete, public_names
from tests.runtime.trl_compat.tiny_trainer import LinearLoss, tiny_trainer
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer

from posttrain.runtime.trl_compat.composite_checkpoints import composite_checkpoint_trainer


class Composite(LinearLoss):
    def __init__(self) -> None:
        super().__init__()
        sizes: Any = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "vocab_size": 4}
        self.policy: Any = Qwen2ForCausalLM(
            Qwen2Config(num_attention_heads=2, num_key_value_heads=2, **sizes)
        )


def test_the_trainer_saves_no_model_that_can_be_loaded(tmp_path: Path) -> None:
    tiny_trainer(tmp_path, model=Composite(), max_steps=1).train()
    saved = {path.name for path in (tmp_path / "checkpoint-1").rglob("*")}
    assert "model.safetensors" in saved
    assert "config.json" not in saved, obsolete("composite_checkpoints")


def test_the_trainer_has_no_public_hook_for_checkpoints() -> None:
    hooks = {"save_model", "save_state", "save_metrics"}
    assert public_names(Trainer, "save", "load_", "checkpoint") == hooks, obsolete("composite_checkpoints")


def test_subclasses_save_and_load(tmp_path: Path) -> None:
    class CompositeTrainer(composite_checkpoint_trainer(Trainer)):
        loaded: Any = None

        @property
        def main_model(self) -> Any:
            return self.model.policy

        def save_checkpoint_files(self, folder: Path, state_dict: Any) -> None:
            self.model.policy.save_pretrained(folder)
            torch.save(self.model.layer.state_dict(), folder / "layer.pt")

        def load_checkpoint_files(self, folder: Path) -> None:
            self.model.layer.load_state_dict(torch.load(folder / "layer.pt"))

        def load_checkpoint_state(self, folder: Path) -> None:
            self.loaded = folder

    first = tiny_trainer(tmp_path, CompositeTrainer, Composite(), learning_rate=0.1, max_steps=1)
    first.train()
    assert (tmp_path / "checkpoint-1" / "config.json").exists()
    again = tiny_trainer(tmp_path, CompositeTrainer, Composite(), learning_rate=0.0, max_steps=2)
    torch.nn.init.zeros_(again.model.policy.lm_head.weight)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    assert again.loaded == tmp_path / "checkpoint-1"
    found, saved = again.model.state_dict(), first.model.state_dict()
    assert all(torch.equal(found[name], weight) for name, weight in saved.items() if "policy" in name)
