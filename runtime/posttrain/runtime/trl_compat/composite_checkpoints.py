"""Saves and loads the checkpoints of a trained module that holds several models.

The Trainer saves such a module as one state dict without a configuration, from which no model can be loaded.
It has no public hook for saving or loading a checkpoint, so three private methods are overridden here.

    transformers/trainer.py:3988 `Trainer._save`: `def _save(`
    transformers/trainer.py:3462 `Trainer._load_from_checkpoint`: `def _load_from_checkpoint(`
    transformers/trainer.py:3742 `Trainer._load_optimizer_and_scheduler`: `checkpoint: str`
"""

from pathlib import Path
from typing import Any


def composite_checkpoint_trainer(base: Any) -> Any:
    """Derive a trainer class whose subclasses define how checkpoints are saved and loaded:

    - `main_model`: the model whose weights the Trainer loads
    - `save_checkpoint_files(folder, state_dict)`: save all models; `state_dict` holds the weights if several
      processes gathered them
    - `load_checkpoint_files(folder)`: load the weights of the other models
    - `load_checkpoint_state(folder)`: load further state, after the optimizer's
    """

    class CompositeCheckpointTrainer(base):
        def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
            assert output_dir is not None, "only checkpoints are saved"
            folder = Path(output_dir)
            folder.mkdir(parents=True, exist_ok=True)
            self.save_checkpoint_files(folder, state_dict)

        def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
            super()._load_from_checkpoint(resume_from_checkpoint, self.main_model)
            self.load_checkpoint_files(Path(resume_from_checkpoint))

        def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
            super()._load_optimizer_and_scheduler(checkpoint)
            if checkpoint is not None:
                self.load_checkpoint_state(Path(checkpoint))

    return CompositeCheckpointTrainer
