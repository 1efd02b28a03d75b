"""Measures the CPU time of commands, and of the baseline ("floor") of the command-line benchmarks.

The floor is the interpreter importing click, ruamel.yaml and pydantic and defining one model. Commands are
interleaved, so that a change of the machine's speed affects all of them. The first round warms the caches.
"""

import os
import resource
import statistics
import sys
from collections.abc import Mapping, Sequence

FLOOR_SCRIPT = """
import click, ruamel.yaml, pydantic
class M(pydantic.BaseModel):
    a: int = 0
"""
RECIPE_COMMAND = [sys.executable, "-m", "posttrain.cli.main"]


def cpu_seconds(command: Sequence[str]) -> float:
    """User and system time of a command and its child processes."""
    usage = resource_usage(command)
    return usage.ru_utime + usage.ru_stime


def resource_usage(command: Sequence[str]) -> resource.struct_rusage:
    """The resource usage of a command; its output is discarded."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    pid = os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, quiet, 1), (os.POSIX_SPAWN_DUP2, quiet, 2)],
    )
    _, status, usage = os.wait4(pid, 0)
    os.close(quiet)
    assert os.waitstatus_to_exitcode(status) == 0, f"{command} failed"
    return usage


def median_cpu_seconds(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, float]:
    """The median CPU time of each command, and of the floor under the name `floor`."""
    every = {"floor": [sys.executable, "-c", FLOOR_SCRIPT], **commands}
    times: dict[str, list[float]] = {name: [] for name in every}
    for _ in range(rounds + 1):
        for name, command in every.items():
            times[name].append(cpu_seconds(command))
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


def print_times(times: Mapping[str, float]) -> None:
    """Print seconds and multiples of the floor."""
    print(f"{'command':44} {'cpu s':>8} {'x floor':>8}")
    for name, seconds in times.items():
        print(f"{name:44} {seconds:8.3f} {seconds / times['floor']:8.2f}", flush=True)
