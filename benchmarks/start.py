"""CPU time of `recipe validate` and `recipe plan`, as multiples of a floor measured in the same run.

python benchmarks/start.py [--rounds 15] [RECIPE ...]
"""

import argparse
from pathlib import Path

from floor import RECIPE, in_turns, show

ROOT = Path(__file__).parent.parent


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("recipes", nargs="*", default=[str(ROOT / "recipes" / "quickstart")])
    given = options.parse_args()
    commands = {
        f"{verb} {Path(path).name}": [*RECIPE, verb, path]
        for path in given.recipes
        for verb in ("validate", "plan")
    }
    show(in_turns(commands, given.rounds))


if __name__ == "__main__":
    main()
