"""What a checkpoint must hold beside what the trainer writes, for the resumed run to be the same.

watch.json     what the watch over the run has seen
launch.json    by how many processes it was made, and how they divide the model
reference/     the weights of a reference model that moves with the policy
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.distributed.full_weights import assign_weights, gather_weights
from posttrain.runtime.errors import StepError
from posttrain.runtime.training.anomaly_monitor import AnomalyMonitor
from posttrain.spec.plan import Launch

_MONITOR_FILE = "watch.json"
_LAUNCH_FILE = "launch.json"
_REFERENCE_DIR = "reference"
_WEIGHTS_FILE = "model.safetensors"


def save_extras(checkpoint: Path, moved: Mapping[str, Any] | None, watch: AnomalyMonitor) -> None:
    """Complete a checkpoint that the trainer has written; `moved` are a reference's weights."""
    atomic_io.write_json(
        checkpoint / _MONITOR_FILE, watch.state_dict(), sync=False
    )  # the seal brings all to the disk
    # TRL's copy of the adapter that training began with. It never moves, so it is made again; and a
    # checkpoint that holds it is read back without the adapter that is trained.
    shutil.rmtree(checkpoint / "ref", ignore_errors=True)
    if moved is not None:
        from safetensors.torch import save_file

        (checkpoint / _REFERENCE_DIR).mkdir(exist_ok=True)
        save_file(dict(moved), str(checkpoint / _REFERENCE_DIR / _WEIGHTS_FILE))


def synced_reference_weights(trainer: Any) -> Mapping[str, Any] | None:
    """The weights of a reference that moves, for `keep`. All processes bring them together."""
    reference = _synced_reference(trainer)
    return None if reference is None else gather_weights(reference)


def load_monitor_state(checkpoint: Path) -> Any:
    """What the watch had seen by this checkpoint."""
    return atomic_io.read_json(checkpoint / _MONITOR_FILE)


def restore_reference(checkpoint: Path, trainer: Any) -> None:
    """Bring a reference model that moves back to where it was."""
    reference = _synced_reference(trainer)
    if reference is not None:
        from safetensors.torch import load_file

        assign_weights(reference, load_file(str(checkpoint / _REFERENCE_DIR / _WEIGHTS_FILE)))


def _synced_reference(trainer: Any) -> Any:
    """The reference model, where it is pulled towards the policy every so many steps."""
    if not getattr(trainer.args, "sync_ref_model", False):
        return None
    return trainer.accelerator.unwrap_model(trainer.ref_model)


def save_launch(checkpoint: Path, launch: Launch) -> None:
    made = {"processes": launch.processes, "strategy": launch.strategy}
    atomic_io.write_json(checkpoint / _LAUNCH_FILE, made, sync=False)


def check_launch(checkpoint: Path, launch: Launch) -> None:
    """A checkpoint goes on as it was made: random states and divided weights belong to their processes."""
    made = atomic_io.read_json(checkpoint / _LAUNCH_FILE)
    if made is not None and (made["processes"], made["strategy"]) != (launch.processes, launch.strategy):
        raise StepError(
            f"{checkpoint.name} was made by {made['processes']} processes ({made['strategy']}), and the plan"
            f" now has {launch.processes} ({launch.strategy})",
            f"write `placement: {{num_processes: {made['processes']}, strategy: {made['strategy']}}}` to go on,"
            f" or delete {checkpoint.parent} to begin anew",
        )
