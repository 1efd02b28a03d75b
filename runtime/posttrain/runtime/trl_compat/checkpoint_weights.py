"""Loads the weights of one of the trainer's checkpoints into its model, without its other state.

The Trainer has no public method for this: `train(resume_from_checkpoint=...)` also restores the optimizer,
the scheduler and the step.

    transformers/trainer.py:3462 `Trainer._load_from_checkpoint`: `def _load_from_checkpoint(`
"""

from pathlib import Path
from typing import Any


def load_checkpoint_weights(trainer: Any, checkpoint: Path, strategy: str) -> None:
    """Load the weights of a checkpoint. Collective: all processes must call it."""
    if strategy == "zero3":  # each process reads the shards that it has written
        trainer.model_wrapped.load_checkpoint(
            str(checkpoint), load_module_strict=not hasattr(trainer.model, "peft_config")
        )
    else:
        trainer._load_from_checkpoint(str(checkpoint))
