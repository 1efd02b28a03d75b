"""Carries a step out in several processes: forks them, waits for them, and lets none outlive another.

Forked from the worker, they have what it has imported. They find each other through a socket that
the worker has opened, so that no two steps ever meet at one port. Each has its own log in the
record (rank-N.log; the first has the step's own) and its own folder to work in; the checkpoints
are shared, and the product is written by the first.
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

from posttrain.runtime import durable
from posttrain.runtime.context import Context
from posttrain.runtime.events import EventWriter
from posttrain.runtime.faults import STOPPED, Interrupted
from posttrain.runtime.launch import failing
from posttrain.runtime.launch.building import may_build
from posttrain.runtime.launch.meeting import Meeting, join

# Among the facts, for the worker to take: what the GPU with the most memory in use has held.
PEAK = "peak_gpu_mb"
_PAUSE = 0.05
_GRACE = 2.0  # seconds: for a process that is being killed to be gone
Run = Callable[[Context], None]


@dataclass(frozen=True)
class Process:
    """What holds for every process of a worker: it ends with the one that started it, and at once."""

    die_with: Callable[[int], None]
    leave: Callable[[int], NoReturn]
    # The most memory of a GPU that it has held, in MiB; None where it has used none.
    peak_gpu: Callable[[], float | None]


def run_together(context: Context, run: Run, process: Process) -> None:
    """Run a step in as many processes as its launch says; the facts are those of the first."""
    size = context.step.launch.processes
    if context.step.launch.strategy.startswith("zero"):
        may_build()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(size)
        meeting = Meeting(size, listener.getsockname()[1], listener.fileno())
        _facts(context.work).unlink(missing_ok=True)
        failing.forget(context.work, size)
        ranks = {_forked(context, run, rank, meeting, process): rank for rank in range(size)}
    _wait(context, ranks)
    context.facts.update(durable.read_json(_facts(context.work)) or {})
    peaks = [durable.read_json(_peak(context.work, rank)) for rank in range(size)]
    context.facts[PEAK] = max((peak for peak in peaks if peak is not None), default=None)


def _forked(context: Context, run: Run, rank: int, meeting: Meeting, process: Process) -> int:
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        process.leave(_become(context, run, rank, meeting, process, parent))
    return pid


def _wait(context: Context, ranks: dict[int, int]) -> None:
    """Until all have ended well; one that has not ends the others and the step."""
    left, stopped, asked = dict(ranks), False, False
    try:
        while left:
            if context.stop.asked and not asked:
                asked = True
                for pid in left:
                    os.kill(pid, signal.SIGTERM)
            ended = _ended(left)
            stopped = stopped or STOPPED in ended.values()
            if failed := _bad(ended):
                raise failing.cause(context.work, failed | _bad(_others(left, failed)), len(ranks))
            if not ended:
                time.sleep(_PAUSE)
    finally:
        _end(left)
    if stopped:
        raise Interrupted


def _ended(left: dict[int, int]) -> dict[int, int]:
    """The processes that have ended by now, by rank, with how; they are left no longer."""
    ended: dict[int, int] = {}
    for pid in list(left):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            ended[left.pop(pid)] = os.waitstatus_to_exitcode(status)
    return ended


def _bad(ended: dict[int, int]) -> dict[int, int]:
    return {rank: code for rank, code in ended.items() if code not in (0, STOPPED)}


def _others(left: dict[int, int], failed: dict[int, int]) -> dict[int, int]:
    """Those that end soon after: the first to be seen may only have missed one of them.

    Whoever waits for a process that is killed is told by the network, and may be gone before it.
    """
    ended: dict[int, int] = {}
    until = time.monotonic() + _GRACE
    while left and all(code > 0 for code in (failed | ended).values()) and time.monotonic() < until:
        time.sleep(_PAUSE)
        ended |= _ended(left)
    return ended


def _end(left: dict[int, int]) -> None:
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    for pid in left:
        os.waitpid(pid, 0)


def _become(context: Context, run: Run, rank: int, meeting: Meeting, process: Process, parent: int) -> int:
    """In the forked process: carry the step out as one of several; gives how it ended."""
    try:
        process.die_with(parent)
        mine = _own(context, rank)
        join(rank, meeting, context.step)
        run(mine)
        durable.write_json(_peak(context.work, rank), process.peak_gpu())
        if rank == 0:
            durable.write_json(_facts(context.work), mine.facts)
        return 0
    except Interrupted:
        return STOPPED
    except BaseException as error:
        return failing.tell(context.work, rank, error)


def _own(context: Context, rank: int) -> Context:
    """The context of one process. The first has the step's own."""
    if rank == 0:
        return replace(context, facts={})
    record = context.work / "record"
    with (record / failing.log(rank)).open("ab") as log:
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


def _peak(work: Path, rank: int) -> Path:
    return work / "scratch" / f"peak-{rank}.json"


def _facts(work: Path) -> Path:
    return work / "scratch" / "facts.json"
