"""What containing programs costs: `python perf/sandbox_overhead.py > perf/sandbox_overhead.md`.

Each program is run bare, as a subprocess of the same interpreter with the same flags, and in each sandbox:
one at a time, and as many at a time as there are cores. Rounds alternate, so that a busy machine is busy for
all.
"""

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from posttrain.runtime.rewards.engine.batch import Batch
from posttrain.runtime.rewards.ops.code_tests import CodeTests
from posttrain.runtime.rewards.ops.code_tests import run as score
from posttrain.runtime.sandbox.job import Job, Sandbox
from posttrain.runtime.sandbox.languages import load_language
from posttrain.runtime.sandbox.languages.python_language import interpreter
from posttrain.runtime.sandbox.limits import Limits
from posttrain.runtime.sandbox.process_runner import run
from posttrain.runtime.sandbox.sandbox_selection import select_sandbox

_ROUNDS, _PROGRAMS = 7, 20
_PYTHON = load_language("python")
_PROGRAM = "n = int(input())\nprint(sum(i * i for i in range(n)))\n"
_INPUT = b"1000\n"
_FLAGS = ("-s", "-S", "-P", "-B", "-X", "utf8", "-c")


def main() -> None:
    runners: dict[str, Callable[[], object]] = {"bare subprocess": _run_bare}
    for kind in ("namespaces", "landlock"):
        runners[kind] = _sandboxed(select_sandbox(kind))
    concurrency = len(os.sched_getaffinity(0))
    one: dict[str, list[float]] = {name: [] for name in runners}
    many: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(_ROUNDS):
        for name, runner in runners.items():
            one[name].append(_seconds_per_program(runner, 1))
            many[name].append(_seconds_per_program(runner, concurrency))
    print("# The sandbox\n")
    print(
        f"Made by `python perf/sandbox_overhead.py` with Python {platform.python_version()} on {concurrency}"
        f" cores ({platform.machine()}): a program of two lines with one input, {_PROGRAMS} a round, the"
        f" median of {_ROUNDS} rounds. The ratio is what does not depend on the machine.\n"
    )
    print(f"| | ms a program | to bare | programs/s, {concurrency} at a time | to bare |")
    print("|---|---|---|---|---|")
    for name in runners:
        cells: list[str] = []
        for found, shown in ((one, _milliseconds), (many, _per_second)):
            value = statistics.median(found[name])
            cells += [shown(value), f"{value / statistics.median(found['bare subprocess']):.2f}"]
        print(f"| {name} | {' | '.join(cells)} |")
    print()
    _op()


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


def _per_second(seconds: float) -> str:
    return f"{1 / seconds:.0f}"


def _run_bare() -> None:
    command = [str(interpreter()), *_FLAGS, _PROGRAM]
    subprocess.run(command, input=_INPUT, capture_output=True, check=True, env=dict(_PYTHON.environment))


def _sandboxed(sandbox: Sandbox) -> Callable[[], object]:
    job = Job(language=_PYTHON, program=_PROGRAM.encode(), input=_INPUT, limits=Limits())

    def run_in_sandbox() -> None:
        assert run(sandbox, job).status == 0

    return run_in_sandbox


def _seconds_per_program(runner: Callable[[], object], concurrency: int) -> float:
    """Seconds a program."""
    start = time.perf_counter()
    with ThreadPoolExecutor(concurrency) as pool:
        for done in [pool.submit(runner) for _ in range(_PROGRAMS)]:
            done.result()
    return (time.perf_counter() - start) / _PROGRAMS


def _op() -> None:
    """The op as a training step calls it: different programs, each with several tests."""
    programs = [f"# {n}\n{_PROGRAM}" for n in range(32)]
    tests = [
        {"stdin": f"{n}\n", "stdout": str(sum(i * i for i in range(n)))} for n in (1, 10, 100, 1000, 2000)
    ]
    operands = {"of": programs, "tests": [tests] * len(programs)}
    start = time.perf_counter()
    found = score(CodeTests(), operands, Batch(count=len(programs)))
    seconds = time.perf_counter() - start
    assert found.values == [1.0] * len(programs)
    runs = len(programs) * len(tests)
    print(
        f"`code_tests` over {len(programs)} programs with {len(tests)} tests each: {seconds:.1f} s,"
        f" {runs / seconds:.0f} tests/s. A program that does not compile is run once, and with"
        " `score: all` none is run after the first test that it does not pass."
    )


if __name__ == "__main__":
    main()
