"""Signs of life of the nodes of a step: each node renews a file; readers count how long it stays the same.

A reader compares counters by its own monotonic clock, so clocks may differ. Time in which the reader itself
was stopped, or waited for the disk, does not count as silence.
"""

import contextlib
import threading
import time
from collections.abc import Iterable

from posttrain.runtime.distributed.node_group import NodeGroup
from posttrain.spec.step_records import NodeBeat

BEAT_SECONDS = 1.0
# A node that is silent for this long is lost. Disks that all nodes share can be slow for seconds.
LOST_SECONDS = 10.0
_MAX_STEP_SECONDS = 2.0


class Heartbeat:
    """Renews the sign of life of this node, in a thread."""

    def __init__(self, group: NodeGroup, node: str) -> None:
        self._group, self._node = group, node
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        beat = 0
        while True:
            beat += 1
            with contextlib.suppress(OSError):  # a node that cannot write is lost to the others
                self._group.beat(NodeBeat(node=self._node, beat=beat))
            if self._over.wait(BEAT_SECONDS):
                return


class HeartbeatWatch:
    """How long nodes have been silent."""

    def __init__(self, group: NodeGroup, nodes: Iterable[int]) -> None:
        self._group = group
        self._beats: dict[int, NodeBeat | None] = dict.fromkeys(nodes)
        self._silence = dict.fromkeys(self._beats, 0.0)
        self._updated = time.monotonic()

    def update(self) -> bool:
        """Read the signs of life, at most four times per second; whether it is time for that."""
        now = time.monotonic()
        passed = now - self._updated
        if passed < BEAT_SECONDS / 4:
            return False
        self._updated = now
        for index, before in self._beats.items():
            found = self._group.read(NodeBeat, f"beat-{index}.json")
            if found is None or found == before:
                self._silence[index] += min(passed, _MAX_STEP_SECONDS)
            else:
                self._beats[index], self._silence[index] = found, 0.0
        return True

    def silence(self, index: int) -> float:
        """The seconds since the node was heard, or since the watch began."""
        return self._silence[index]

    def has_joined(self, index: int) -> bool:
        return self._beats[index] is not None

    def name(self, index: int) -> str:
        """The name of the node, or its number if it was never heard."""
        beat = self._beats[index]
        return f"{index + 1} of {self._group.count}" if beat is None else beat.node
