"""Interleaves two runs of the same work: both are forked from one process onto one core and alternate after
every step, so that other load affects both equally."""

import contextlib
import json
import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CpuTime:
    """CPU seconds of one run (user and system): in total, and for the steps after the first."""

    whole: float
    steps: float
    losses: list[float]


class Turn:
    """One of the two runs. It waits until the other one ends a step or exits."""

    def __init__(self, wait: int, notify: int) -> None:
        self._wait, self._notify = wait, notify
        self.times: list[float] = []

    def end_step(self) -> None:
        """Hand over to the other run. Call this at the end of every step."""
        self.times.append(time.process_time())
        with contextlib.suppress(BrokenPipeError):  # the other run has exited
            os.write(self._notify, b".")
        self.wait()

    def wait(self) -> None:
        os.read(self._wait, 1)


Run = Callable[[Turn], list[float]]


def run_interleaved(first: Run, second: Run) -> tuple[CpuTime, CpuTime]:
    """Run both, each in a separate process and folder. A run returns its losses."""
    to_first, to_second = os.pipe(), os.pipe()
    ends = (*to_first, *to_second)
    sides = [_Side(first, to_first[0], to_second[1], ends), _Side(second, to_second[0], to_first[1], ends)]
    os.write(to_first[1], b".")
    for end in ends:
        os.close(end)
    return sides[0].result(), sides[1].result()


class _Side:
    """A forked process with its own two ends of the pipes."""

    def __init__(self, run: Run, wait: int, notify: int, ends: tuple[int, ...]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="posttrain-turns-"))
        self._pid = os.fork()
        if self._pid == 0:
            for end in set(ends) - {wait, notify}:
                os.close(end)
            _run_side(run, Turn(wait, notify), self._folder)

    def result(self) -> CpuTime:
        try:
            _, status = os.waitpid(self._pid, 0)
            assert status == 0, (self._folder / "log").read_text()[-3000:]
            return CpuTime(**json.loads((self._folder / "found.json").read_text()))
        finally:
            shutil.rmtree(self._folder)


def _run_side(run: Run, turn: Turn, folder: Path) -> None:
    """In the forked process: run, write the result to a file, and exit."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.chdir(folder)
    log = os.open("log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        turn.wait()
        began = time.process_time()
        losses = run(turn)
        whole = time.process_time() - began
        steps = turn.times[-1] - turn.times[0]
        Path("found.json").write_text(json.dumps({"whole": whole, "steps": steps, "losses": losses}))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
