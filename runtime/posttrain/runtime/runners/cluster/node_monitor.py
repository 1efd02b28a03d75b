"""What a client knows of the nodes of a step by their signs of life: engines notice a loss late or never."""

import time
from collections.abc import Sequence
from dataclasses import replace

from posttrain.runtime.distributed.heartbeats import LOST_SECONDS, HeartbeatWatch
from posttrain.runtime.distributed.node_group import NodeGroup
from posttrain.runtime.distributed.peer_nodes import lost_node_error
from posttrain.runtime.errors import StepError
from posttrain.runtime.runners.cluster.attempt_files import AttemptFiles
from posttrain.runtime.runners.cluster.scheduler import JobSpec, Scheduler

# Node 0 judges the others first: it knows more.
_PATIENCE_SECONDS = 2.0
_SUSPECT_SECONDS = 2.5
# A node that was lost is not used again for this long. Engines notice by then.
_AVOID_SECONDS = 300.0


class NodeMonitor:
    """The nodes of one attempt."""

    def __init__(self, files: AttemptFiles, count: int) -> None:
        self._group = NodeGroup(0, count, files.folder)
        self._watch = HeartbeatWatch(self._group, range(count))

    def loss(self) -> StepError | None:
        """The loss of node 0, or of another node that node 0 does not notice."""
        self._watch.update()
        for index in range(self._group.count):
            patience = LOST_SECONDS + (_PATIENCE_SECONDS if index == 0 else 4 * _PATIENCE_SECONDS)
            if self._watch.has_joined(index) and self._watch.silence(index) > patience:
                if self._group.ended(index) is not None:
                    continue
                return lost_node_error(self._watch.name(index), self._watch.silence(index))
        return None

    def silent_nodes(self) -> list[str]:
        """The names of the nodes that were heard, but not lately, and did not report an end."""
        self._watch.update()
        return [
            self._watch.name(index)
            for index in range(self._group.count)
            if self._watch.has_joined(index)
            and self._watch.silence(index) > _SUSPECT_SECONDS
            and self._group.ended(index) is None
        ]


class AvoidedNodes:
    """The nodes that were lost a short time ago."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def add(self, names: Sequence[str]) -> None:
        self._since |= dict.fromkeys(names, time.monotonic())

    def exclude(self, job: JobSpec, scheduler: Scheduler) -> JobSpec:
        """The job without these nodes, if enough others can run it."""
        now = time.monotonic()
        names = [name for name, since in self._since.items() if now - since < _AVOID_SECONDS]
        nodes = job.request.nodes
        if not names or nodes == 1 or len({*scheduler.nodes()} - {*names}) < nodes:
            return job
        restricted = replace(job, excluded=tuple(names))
        return job if scheduler.rejection(restricted) else restricted

    def __bool__(self) -> bool:
        return bool(self._since)
