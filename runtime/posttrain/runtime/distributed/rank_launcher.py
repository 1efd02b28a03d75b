"""Runs a step in several processes: forks them, waits for them, and stops all of them when one fails.

The processes are forks of the worker and share its imports. They meet at a socket that the worker has opened,
so two steps never use the same port. Each process has its own log in the record (rank-N.log; rank 0 has the
log of the step) and its own work folder. The checkpoints are shared, and rank 0 writes the product.
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
from posttrain.runtime.distributed.rendezvous import Rendezvous, join_process_group
from posttrain.runtime.errors import STOPPED, Interrupted
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


def run_ranks(context: StepContext, run: Run, process: ProcessHooks) -> None:
    """Run a step in `launch.processes` processes. The facts are those of rank 0."""
    world_size = context.step.launch.processes
    if context.step.launch.strategy.startswith("zero"):
        use_extension_cache()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(world_size)
        rendezvous = Rendezvous(world_size, listener.getsockname()[1], listener.fileno())
        _facts_path(context.work).unlink(missing_ok=True)
        rank_failures.clear_failures(context.work, world_size)
        ranks = {_fork_rank(context, run, rank, rendezvous, process): rank for rank in range(world_size)}
    _wait_for_ranks(context, ranks)
    context.facts.update(atomic_io.read_json(_facts_path(context.work)) or {})
    peaks = [atomic_io.read_json(_peak_path(context.work, rank)) for rank in range(world_size)]
    context.facts[PEAK_GPU_MB] = max((peak for peak in peaks if peak is not None), default=None)


def _fork_rank(
    context: StepContext, run: Run, rank: int, rendezvous: Rendezvous, process: ProcessHooks
) -> int:
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        process.exit_process(_run_rank(context, run, rank, rendezvous, process, parent))
    return pid


def _wait_for_ranks(context: StepContext, ranks: dict[int, int]) -> None:
    """Wait until all processes have exited. A failure kills the others and raises StepError."""
    left, stopped, signalled = dict(ranks), False, False
    try:
        while left:
            if context.stop.requested and not signalled:
                signalled = True
                for pid in left:
                    os.kill(pid, signal.SIGTERM)
            ended = _reap_exited(left)
            stopped = stopped or STOPPED in ended.values()
            if failed := _failed_ranks(ended):
                raise rank_failures.first_failure(
                    context.work, failed | _failed_ranks(_wait_for_late_failures(left, failed)), len(ranks)
                )
            if not ended:
                time.sleep(_POLL_SECONDS)
    finally:
        _kill_all(left)
    if stopped:
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


def _run_rank(
    context: StepContext, run: Run, rank: int, rendezvous: Rendezvous, process: ProcessHooks, parent: int
) -> int:
    """Run the step in a forked process, as one of several. Returns the exit status."""
    try:
        process.tie_to_parent(parent)
        mine = _rank_context(context, rank)
        join_process_group(rank, rendezvous, context.step)
        run(mine)
        atomic_io.write_json(_peak_path(context.work, rank), process.peak_gpu_mb())
        if rank == 0:
            atomic_io.write_json(_facts_path(context.work), mine.facts)
        return 0
    except Interrupted:
        return STOPPED
    except BaseException as error:
        return rank_failures.record_failure(context.work, rank, error)


def _rank_context(context: StepContext, rank: int) -> StepContext:
    """Return the context of a process. Rank 0 has the context of the step."""
    if rank == 0:
        return replace(context, facts={})
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
