"""Saves and restores the parts of a checkpoint that the trainer does not, for exact resume.

anomaly_monitor.json   the state of the anomaly monitor
launch.json            the number of processes and the sharding strategy
reference/             the weights of a reference model that is updated during training
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.distributed.full_weights import assign_weights, gather_weights
from posttrain.runtime.errors import StepError
from posttrain.runtime.training.anomaly_monitor import AnomalyMonitor
from posttrain.runtime.trl_compat.reference_adapter import remove_reference_adapter
from posttrain.spec.plan import Launch

_MONITOR_FILE = "anomaly_monitor.json"
_LAUNCH_FILE = "launch.json"
_REFERENCE_DIR = "reference"
_WEIGHTS_FILE = "model.safetensors"


def save_extras(checkpoint: Path, reference: Mapping[str, Any] | None, monitor: AnomalyMonitor) -> None:
    """Add the extra files to a checkpoint that the trainer has written.

    `reference` holds the weights of a reference model that is updated during training.
    """
    # No fsync here: sealing the checkpoint syncs all of its files.
    atomic_io.write_json(checkpoint / _MONITOR_FILE, monitor.state_dict(), sync=False)
    remove_reference_adapter(checkpoint)
    if reference is not None:
        from safetensors.torch import save_file

        (checkpoint / _REFERENCE_DIR).mkdir(exist_ok=True)
        save_file(dict(reference), str(checkpoint / _REFERENCE_DIR / _WEIGHTS_FILE))


def synced_reference_weights(trainer: Any) -> Mapping[str, Any] | None:
    """Return the weights of a reference model that is updated, for `save_extras`. Collective: all processes
    must call it."""
    reference = _synced_reference(trainer)
    return None if reference is None else gather_weights(reference)


def load_monitor_state(checkpoint: Path) -> Any:
    """Return the state of the anomaly monitor from a checkpoint."""
    return atomic_io.read_json(checkpoint / _MONITOR_FILE)


def restore_reference(checkpoint: Path, trainer: Any) -> None:
    """Restore the weights of a reference model that is updated during training."""
    reference = _synced_reference(trainer)
    if reference is not None:
        from safetensors.torch import load_file

        assign_weights(reference, load_file(str(checkpoint / _REFERENCE_DIR / _WEIGHTS_FILE)))


def _synced_reference(trainer: Any) -> Any:
    """Return the reference model if it is updated during training, else None."""
    if not getattr(trainer.args, "sync_ref_model", False):
        return None
    return trainer.accelerator.unwrap_model(trainer.ref_model)


def save_launch(checkpoint: Path, launch: Launch) -> None:
    record = {"processes": launch.processes, "strategy": launch.strategy}
    atomic_io.write_json(checkpoint / _LAUNCH_FILE, record, sync=False)


def check_launch(checkpoint: Path, launch: Launch) -> None:
    """Check that the plan has the processes and strategy of the checkpoint: random states and shards are per
    process."""
    record = atomic_io.read_json(checkpoint / _LAUNCH_FILE)
    if record is not None and (record["processes"], record["strategy"]) != (
        launch.processes,
        launch.strategy,
    ):
        raise StepError(
            f"{checkpoint.name} was saved by {record['processes']} processes ({record['strategy']}), but the"
            f" plan has {launch.processes} ({launch.strategy})",
            f"set `placement: {{num_processes: {record['processes']}, strategy: {record['strategy']}}}` to"
            f" resume, or delete {checkpoint.parent} to start over",
        )
