"""Two runs of the same work in turns: forked from one process onto one core, a step of the one and then a
step of the other, so that whatever else the machine does falls on both alike."""

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
    """CPU seconds of one run, its own and the kernel's: of the whole, and of its steps after the first."""

    whole: float
    steps: float
    losses: list[float]


class Turn:
    """One side of the two: it works while the other waits, until a byte or the other's end says go."""

    def __init__(self, wait: int, tell: int) -> None:
        self._wait, self._tell = wait, tell
        self.times: list[float] = []

    def end_step(self) -> None:
        """To be called at the end of every step."""
        self.times.append(time.process_time())
        with contextlib.suppress(BrokenPipeError):  # the other has come to its end
            os.write(self._tell, b".")
        self.wait()

    def wait(self) -> None:
        os.read(self._wait, 1)


Run = Callable[[Turn], list[float]]


def run_interleaved(first: Run, second: Run) -> tuple[CpuTime, CpuTime]:
    """What each run took; each gives its losses, and works in a process and a folder of its own."""
    to_first, to_second = os.pipe(), os.pipe()
    ends = (*to_first, *to_second)
    sides = [_Side(first, to_first[0], to_second[1], ends), _Side(second, to_second[0], to_first[1], ends)]
    os.write(to_first[1], b".")
    for end in ends:
        os.close(end)
    return sides[0].result(), sides[1].result()


class _Side:
    """A forked process that keeps the two ends of pipes that are its own."""

    def __init__(self, run: Run, wait: int, tell: int, ends: tuple[int, ...]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="posttrain-turns-"))
        self._pid = os.fork()
        if self._pid == 0:
            for end in set(ends) - {wait, tell}:
                os.close(end)
            _run_side(run, Turn(wait, tell), self._folder)

    def result(self) -> CpuTime:
        try:
            _, status = os.waitpid(self._pid, 0)
            assert status == 0, (self._folder / "log").read_text()[-3000:]
            return CpuTime(**json.loads((self._folder / "found.json").read_text()))
        finally:
            shutil.rmtree(self._folder)


def _run_side(run: Run, turn: Turn, folder: Path) -> None:
    """In the forked process: run, write down what came of it, and end."""
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
