"""What a client knows about one step on a cluster."""

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from posttrain.runtime.errors import StepError
from posttrain.runtime.runners.cluster.attempt_files import AttemptFiles
from posttrain.runtime.runners.cluster.node_monitor import NodeMonitor
from posttrain.spec.plan import Step


@dataclass
class JobHandle:
    """A step on the cluster."""

    step: Step
    files: AttemptFiles
    job_name: str
    pool: str | None = None
    # None until the job is submitted, for a job of an earlier client, and for a step of a pool.
    job: str | None = None
    submitting: threading.Thread | None = None
    since: float = field(default_factory=time.monotonic)
    stop_requested: bool = False
    # How many jobs this client submitted for a pool that did not take the step.
    refills: int = 0
    # When the job was first seen to be over, or missing.
    over_since: float | None = None
    # Of a step on several nodes.
    nodes: NodeMonitor | None = None
    status: int | None = None
    # Whether a program on a node has the step.
    has_begun: bool = False


def node_monitor(step: Step, files: AttemptFiles) -> NodeMonitor | None:
    return NodeMonitor(files, step.launch.all_nodes) if step.launch.all_nodes > 1 else None


def start_error(output: Path, what: str, *, retriable: bool) -> StepError:
    """The failure of a job that ended before it ran the step. It is transient if nodes were lost a short time
    ago: the engine may have used one of them."""
    try:
        lines = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    reason = f": {lines[-1]}" if lines else ", without output"
    return StepError(
        f"{what} ended before the step started{reason}",
        "check `python`, `setup` and the shared disk of the place with `recipe doctor --on NAME`",
        retriable=retriable,
        details="\n".join(lines[-20:]),
    )
