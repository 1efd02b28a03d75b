"""Node 0's judgement of the other nodes: which of them caused the end of a step.

When a process dies, the others fail with network errors, at once or never. A process that ended without an
error of its own is the cause; else a node that is silent; else the error that came first.
"""

import re
import time

from posttrain.runtime.distributed.heartbeats import LOST_SECONDS, HeartbeatWatch
from posttrain.runtime.distributed.node_group import NodeGroup
from posttrain.runtime.distributed.rank_failures import RankError
from posttrain.runtime.errors import FAILED, STOPPED, StepError
from posttrain.spec.step_records import NodeEnd, RankFailure

# After a failure here, a node that is silent for this long is its cause.
_SUSPECT_SECONDS = 3.5
_BLAME_SECONDS = 12.0  # the longest search for the cause
_LATE_SECONDS = 5.0  # in which the processes here fail after those of another node
_POLL_SECONDS = 0.05
_MAX_DETAILS = 8000  # characters, so that the record fits into its reserved space
_CONNECTION = re.compile(
    r"connection (was |was likely )?(closed|reset|refused)|broken pipe|socket timeout|failed to recv"
    r"|timed out waiting|remote process exited|network error",
    re.IGNORECASE,
)
RESUMES = (
    "run again: the step resumes from its last checkpoint. `retry: {attempts: N}` of the stage does so in the"
    " same run"
)


def lost_node_error(name: str, seconds: float) -> StepError:
    return StepError(f"node {name} is lost: no sign of life for {seconds:.0f} s", RESUMES, retriable=True)


class PeerNodes:
    """The nodes of a step, as node 0 sees them."""

    def __init__(self, group: NodeGroup) -> None:
        self._group = group
        self._watch = HeartbeatWatch(group, range(group.count))
        self._ends: dict[int, NodeEnd] = {}
        self._first_failure: float | None = None

    def check(self) -> None:
        """Raise the error of a node that is lost or has failed."""
        self._update()
        failed = [end for end in self._ends.values() if end.failure is not None]
        causes = [end for end in failed if end.is_cause]
        if causes:
            raise self._named(causes[0], self._index(causes[0]))
        if failed:
            self._first_failure = self._first_failure or time.monotonic()
            if time.monotonic() - self._first_failure > _LATE_SECONDS:
                raise self.blame(None)
        for index in self._running():
            if self._watch.silence(index) > LOST_SECONDS:
                raise lost_node_error(self._watch.name(index), self._watch.silence(index))

    def blame(self, error: RankError | None) -> StepError:
        """The cause of a failure here, or else of one of the others."""
        if error is not None and error.is_cause:
            return self._with_node(error, 0)
        deadline = time.monotonic() + _BLAME_SECONDS
        while time.monotonic() < deadline:
            self._update()
            causes = [end for end in self._ends.values() if end.is_cause]
            if causes:
                return self._named(causes[0], self._index(causes[0]))
            silent = [i for i in self._running() if self._watch.silence(i) > _SUSPECT_SECONDS]
            if silent:
                return lost_node_error(self._watch.name(silent[0]), self._watch.silence(silent[0]))
            if not self._training():
                break
            time.sleep(_POLL_SECONDS)
        return self._first(error)

    def _first(self, error: RankError | None) -> StepError:
        """The first error that is no lost connection: these follow from others, and clocks of nodes differ.
        If connections alone are lost, the failure is transient."""
        found = [
            (end.failure.at, self._named(end, index))
            for index, end in self._ends.items()
            if end.failure is not None
        ]
        if error is not None:
            found.append((error.at, self._with_node(error, 0)))
        causes = [item for item in found if _CONNECTION.search(str(item[1])) is None]
        return min(causes or found, key=lambda item: item[0])[1]

    def all_ended(self) -> bool:
        """Whether all nodes that train have ended. A server ends after them."""
        self._update()
        return not self._training()

    def any_stopped(self) -> bool:
        return any(end.status == STOPPED for end in self._ends.values())

    def _update(self) -> None:
        if not self._watch.update():
            return
        for index in self._running():
            end = self._group.ended(index)
            if end is not None:
                self._ends[index] = end

    def _running(self) -> list[int]:
        return [index for index in self._group.others if index not in self._ends]

    def _training(self) -> list[int]:
        return [index for index in self._running() if index in self._group.trainers]

    def _index(self, end: NodeEnd) -> int:
        return next(index for index, found in self._ends.items() if found is end)

    def _named(self, end: NodeEnd, index: int) -> StepError:
        failure = end.failure
        assert failure is not None, "an end that is reported has a failure"
        return self._with_node(
            StepError(failure.message, failure.advice, retriable=failure.retriable, details=failure.details),
            index,
        )

    def _with_node(self, error: StepError, index: int) -> StepError:
        return StepError(
            f"{error}, on node {self._watch.name(index)}",
            error.advice,
            retriable=error.retriable or _CONNECTION.search(str(error)) is not None,
            details=error.details,
        )


def node_end(error: BaseException | None, status: int) -> NodeEnd:
    """The record of the end of a node, with the failure of its processes."""
    from posttrain.runtime.errors import as_step_error, failure_record

    if error is None:
        return NodeEnd(status=status)
    at = error.at if isinstance(error, RankError) else time.time()
    failure = RankFailure(**dict(failure_record(as_step_error(error))), at=at)
    failure = failure.model_copy(update={"details": failure.details[-_MAX_DETAILS:]})
    return NodeEnd(
        status=FAILED, failure=failure, is_cause=not isinstance(error, RankError) or error.is_cause
    )
