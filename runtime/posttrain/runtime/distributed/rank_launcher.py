"""Runs a step in several processes: forks them, waits for them, and stops all of them when one fails.

The processes are forks of the worker and share its imports. They meet at a socket that the worker has opened,
so two steps never use the same port. Each process has its own log in the record (rank-N.log; rank 0 has the
log of the step) and its own work folder. The checkpoints are shared, and rank 0 writes the product.

With several nodes, a worker on each of them runs its share of the processes. That of node 0 waits for the
others, and decides which of them caused a failure (`peer_nodes.py`).
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from posttrain.runtime import atomic_io
from posttrain.runtime.distributed import rank_failures
from posttrain.runtime.distributed.extension_cache import use_extension_cache
from posttrain.runtime.distributed.node_group import NodeGroup
from posttrain.runtime.distributed.node_rendezvous import MeetingPoint, meet_as_first, meet_as_other
from posttrain.runtime.distributed.peer_nodes import PeerNodes
from posttrain.runtime.distributed.rendezvous import Rendezvous, join_process_group
from posttrain.runtime.errors import FAILED, STOPPED, Interrupted
from posttrain.runtime.events import EventWriter
from posttrain.runtime.step_context import StepContext

# The fact with the largest peak GPU memory of all processes, which the worker reads.
PEAK_GPU_MB = "peak_gpu_mb"
_POLL_SECONDS = 0.05
_GRACE_SECONDS = 2.0  # how long to wait for further processes to exit after the first failure
Run = Callable[[StepContext], None]


@dataclass(frozen=True)
class ProcessHooks:
    """The worker's functions for its child processes: exit with the parent, exit at once, peak memory."""

    tie_to_parent: Callable[[int], None]
    exit_process: Callable[[int], NoReturn]
    # The peak GPU memory of the process in MiB; None if it has used no GPU.
    peak_gpu_mb: Callable[[], float | None]


def run_ranks(context: StepContext, run: Run, process: ProcessHooks, group: NodeGroup | None = None) -> None:
    """Run a step in `launch.processes` processes, or those of one node. The facts are those of rank 0."""
    world_size = context.step.launch.processes
    local_size = world_size // (len(group.trainers) if group else 1)
    first = local_size * (group.index if group else 0)
    peers = PeerNodes(group) if group and group.index == 0 else None
    if context.step.launch.strategy.startswith("zero"):
        use_extension_cache()
    point = _meeting_point(group, world_size, peers)
    rendezvous = Rendezvous(
        world_size,
        point.port,
        point.listener.fileno() if point.listener else None,
        address=point.address,
        local_size=local_size,
        interface=point.interface,
    )
    if first == 0:
        _facts_path(context.work).unlink(missing_ok=True)
    if group is None:
        rank_failures.clear_failures(context.work, world_size)
    fork = _RankFork(context, run, rendezvous, process, group)
    ranks = {fork.start(rank): rank for rank in range(first, first + local_size)}
    if point.listener is not None:
        point.listener.close()
    _wait_for_ranks(context, ranks, group, peers)
    if first > 0:
        return
    context.facts.update(atomic_io.read_json(_facts_path(context.work)) or {})
    peaks = [atomic_io.read_json(_peak_path(context.work, rank)) for rank in range(world_size)]
    context.facts[PEAK_GPU_MB] = max((peak for peak in peaks if peak is not None), default=None)


def _meeting_point(group: NodeGroup | None, size: int, peers: PeerNodes | None) -> MeetingPoint:
    """Where the processes of the step meet."""
    if group is None:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(size)
        return MeetingPoint("127.0.0.1", listener.getsockname()[1], listener=listener)
    if peers is not None:
        return meet_as_first(group, size, peers.check)
    return meet_as_other(group)


def _wait_for_ranks(
    context: StepContext, ranks: dict[int, int], group: NodeGroup | None, peers: PeerNodes | None
) -> None:
    """Wait until all processes have exited, and all nodes have ended. A failure kills the processes here and
    raises StepError."""
    size, failures = context.step.launch.processes, _failures_folder(context, group)
    left, stopped, signalled = dict(ranks), False, False
    try:
        while left or not (peers is None or peers.all_ended()):
            if context.stop.requested and not signalled:
                signalled = True
                for pid in left:
                    os.kill(pid, signal.SIGTERM)
            ended = _reap_exited(left)
            stopped = stopped or STOPPED in ended.values()
            if failed := _failed_ranks(ended):
                late = _failed_ranks(_wait_for_late_failures(left, failed))
                error = rank_failures.first_failure(failures, failed | late, size)
                raise error if peers is None else peers.blame(error)
            if peers is not None:
                peers.check()
            if not ended:
                time.sleep(_POLL_SECONDS)
    finally:
        _kill_all(left)
    if stopped or (peers is not None and peers.any_stopped()):
        raise Interrupted


def _reap_exited(left: dict[int, int]) -> dict[int, int]:
    """Remove the exited processes from `left`, and return their exit codes by rank."""
    ended: dict[int, int] = {}
    for pid in list(left):
        exited, status = os.waitpid(pid, os.WNOHANG)
        if exited:
            ended[left.pop(pid)] = os.waitstatus_to_exitcode(status)
    return ended


def _failed_ranks(ended: dict[int, int]) -> dict[int, int]:
    return {rank: code for rank, code in ended.items() if code not in (0, STOPPED)}


def _wait_for_late_failures(left: dict[int, int], failed: dict[int, int]) -> dict[int, int]:
    """Wait briefly for further exits: the first failure seen may be a consequence of another one.

    A process whose peer is killed gets a network error, and may exit before that peer does.
    """
    ended: dict[int, int] = {}
    until = time.monotonic() + _GRACE_SECONDS
    while left and all(code > 0 for code in (failed | ended).values()) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        ended |= _reap_exited(left)
    return ended


def _kill_all(left: dict[int, int]) -> None:
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    for pid in left:
        os.waitpid(pid, 0)


@dataclass(frozen=True)
class _RankFork:
    """Forks the processes of a step."""

    context: StepContext
    run: Run
    rendezvous: Rendezvous
    process: ProcessHooks
    group: NodeGroup | None

    def start(self, rank: int) -> int:
        """The id of a new process."""
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self.process.exit_process(self._run(rank, parent))
        return pid

    def _run(self, rank: int, parent: int) -> int:
        """Run the step in a forked process, as one of several. Returns the exit status."""
        context = self.context
        try:
            self.process.tie_to_parent(parent)
            mine = _rank_context(context, rank, self.group)
            if self.rendezvous.world_size > 1:
                join_process_group(rank, self.rendezvous, context.step)
            self.run(mine)
            atomic_io.write_json(_peak_path(context.work, rank), self.process.peak_gpu_mb())
            if rank == 0:
                atomic_io.write_json(_facts_path(context.work), mine.facts)
            return 0
        except Interrupted:
            return STOPPED
        except BaseException as error:
            if self.group is None:
                return rank_failures.record_failure(context.work, rank, error)
            if self.group.is_void:  # a write would create its folder
                return FAILED
            return rank_failures.record_failure(self.group.folder, rank, error, time.time)


def _failures_folder(context: StepContext, group: NodeGroup | None) -> Path:
    """Where the processes record their failures: of several nodes, in the folder of the attempt."""
    return context.work if group is None else group.folder


def _rank_context(context: StepContext, rank: int, group: NodeGroup | None) -> StepContext:
    """Return the context of a process. Rank 0 has the context of the step."""
    if rank == 0:
        return replace(context, attempt=group.folder if group else None, facts={})
    record = context.work / "record"
    with (record / rank_failures.log_name(rank)).open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    work = context.work / "ranks" / str(rank)
    for name in ("record", "files"):
        (work / name).mkdir(parents=True, exist_ok=True)
    context.checkpoints.mkdir(exist_ok=True)
    if not (work / "checkpoints").is_symlink():
        (work / "checkpoints").symlink_to(context.checkpoints)
    events = EventWriter(work / "record" / "events.jsonl")
    return replace(context, work=work, out=work / "files", events=events, facts={})


def _peak_path(work: Path, rank: int) -> Path:
    return work / "scratch" / f"peak-{rank}.json"


def _facts_path(work: Path) -> Path:
    return work / "scratch" / "facts.json"
