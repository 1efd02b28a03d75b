"""CPU time of `recipe validate` and `recipe plan`, as multiples of a floor measured in the same run.

The floor is the same interpreter importing click, ruamel.yaml and pydantic and defining one model.
Commands take turns, so that a machine whose speed drifts slows all of them alike; medians are shown.

    python benchmarks/start.py [--rounds 15] [RECIPE ...]
"""

import argparse
import os
import statistics
import sys
from pathlib import Path

FLOOR = """
import click, ruamel.yaml, pydantic
class M(pydantic.BaseModel):
    a: int = 0
"""
ROOT = Path(__file__).parent.parent


def cpu_seconds(command: list[str]) -> float:
    """User and system time of a command and all that it started."""
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
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("recipes", nargs="*", default=[str(ROOT / "recipes" / "quickstart")])
    given = options.parse_args()
    recipe = [sys.executable, "-m", "posttrain.cli.main"]
    commands = {"floor": [sys.executable, "-c", FLOOR]}
    for path in given.recipes:
        for verb in ("validate", "plan"):
            commands[f"{verb} {Path(path).name}"] = [*recipe, verb, path]
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(given.rounds + 1):
        for name, command in commands.items():
            times[name].append(cpu_seconds(command))
    floor = statistics.median(times["floor"][1:])
    print(f"{'command':32} {'cpu s':>8} {'x floor':>8}")
    for name, taken in times.items():
        middle = statistics.median(taken[1:])  # the first round warms the caches
        print(f"{name:32} {middle:8.3f} {middle / floor:8.2f}")


if __name__ == "__main__":
    main()
