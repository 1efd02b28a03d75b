"""Ends a run that is resumed from its last step, before it takes another step.

The Trainer compares the step with the last one only after it has taken a step. A run that was killed between
its last checkpoint and its product resumes at the last step, and would train for one step too many.

    transformers/trainer.py:1805 `Trainer._run_epoch`: `for update_step in range(`
"""

from contextlib import suppress
from pathlib import Path
from typing import Any


class TrainingComplete(Exception):
    """Raised by a callback in `on_train_begin`, where the weights are loaded, if no step is left."""


def run_trainer(trainer: Any, checkpoint: Path | None) -> None:
    """Train from the start or from a checkpoint, until the last step or until TrainingComplete is raised."""
    with suppress(TrainingComplete):
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
