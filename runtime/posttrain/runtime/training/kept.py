"""What a checkpoint must hold beside what the trainer writes, for the resumed run to be the same.

watch.json     what the watch over the run has seen
reference/     the weights of a reference model that moves with the policy
"""

import shutil
from pathlib import Path
from typing import Any

from posttrain.runtime import durable
from posttrain.runtime.training.watch import Watch

_WATCH = "watch.json"
_REFERENCE = "reference"
_WEIGHTS = "model.safetensors"


def keep(checkpoint: Path, trainer: Any, watch: Watch) -> None:
    """Complete a checkpoint that the trainer has written."""
    durable.write_json(checkpoint / _WATCH, watch.seen())
    # TRL's copy of the adapter that training began with. It never moves, so it is made again; and a
    # checkpoint that holds it is read back without the adapter that is trained.
    shutil.rmtree(checkpoint / "ref", ignore_errors=True)
    reference = moving_reference(trainer)
    if reference is not None:
        from safetensors.torch import save_model

        (checkpoint / _REFERENCE).mkdir(exist_ok=True)
        save_model(reference, str(checkpoint / _REFERENCE / _WEIGHTS))


def seen(checkpoint: Path) -> Any:
    """What the watch had seen by this checkpoint."""
    return durable.read_json(checkpoint / _WATCH)


def restore_reference(checkpoint: Path, trainer: Any) -> None:
    """Bring a reference model that moves back to where it was."""
    reference = moving_reference(trainer)
    if reference is not None:
        from safetensors.torch import load_model

        load_model(reference, str(checkpoint / _REFERENCE / _WEIGHTS))


def moving_reference(trainer: Any) -> Any:
    """The reference model, where it is pulled towards the policy every so many steps."""
    if not getattr(trainer.args, "sync_ref_model", False):
        return None
    return trainer.accelerator.unwrap_model(trainer.ref_model)
