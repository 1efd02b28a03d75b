"""Measures the CPU time of `recipe validate` and `recipe plan`, relative to a baseline from the same run.

python perf/cli_startup.py [--rounds 15] [RECIPE ...]     default: recipes/quickstart
python perf/cli_startup.py --large [--rounds 3]           a matrix of 1,000 steps, chains up to 10,000
"""

import argparse
import tempfile
from pathlib import Path

from cpu_time import RECIPE_COMMAND, median_cpu_seconds, print_times, resource_usage
from large_recipes import write_chain_recipe, write_matrix_recipe

ROOT = Path(__file__).parent.parent
CHAINS = (1_000, 5_000, 10_000)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--large", action="store_true")
    options.add_argument("recipes", nargs="*", default=[str(ROOT / "recipes" / "quickstart")])
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.large:
            large = [
                write_matrix_recipe(Path(folder), 1_000),
                *(write_chain_recipe(Path(folder), count) for count in CHAINS),
            ]
            print_times(
                median_cpu_seconds(
                    {f"plan {path.name}": [*RECIPE_COMMAND, "plan", str(path)] for path in large},
                    given.rounds,
                )
            )
            print(*(f"{path.name}: {peak_mib(path):.0f} MiB at most" for path in large), sep="\n")
            return
    commands = {
        f"{verb} {Path(path).name}": [*RECIPE_COMMAND, verb, path]
        for path in given.recipes
        for verb in ("validate", "plan")
    }
    print_times(median_cpu_seconds(commands, given.rounds))


def peak_mib(path: Path) -> float:
    """The peak memory of `recipe plan`."""
    return resource_usage([*RECIPE_COMMAND, "plan", str(path)]).ru_maxrss / 1024


if __name__ == "__main__":
    main()
