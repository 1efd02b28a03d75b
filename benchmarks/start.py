"""CPU time of `recipe validate` and `recipe plan`, as multiples of a floor measured in the same run.

python benchmarks/start.py [--rounds 15] [RECIPE ...]     the quickstart if none is named
python benchmarks/start.py --large [--rounds 3]           a matrix of 1,000 steps, chains up to 10,000
"""

import argparse
import tempfile
from pathlib import Path

from floor import RECIPE, in_turns, show, used
from shapes import chain, matrix

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
            large = [matrix(Path(folder), 1_000), *(chain(Path(folder), count) for count in CHAINS)]
            show(
                in_turns({f"plan {path.name}": [*RECIPE, "plan", str(path)] for path in large}, given.rounds)
            )
            print(*(f"{path.name}: {peak_mib(path):.0f} MiB at most" for path in large), sep="\n")
            return
    commands = {
        f"{verb} {Path(path).name}": [*RECIPE, verb, path]
        for path in given.recipes
        for verb in ("validate", "plan")
    }
    show(in_turns(commands, given.rounds))


def peak_mib(path: Path) -> float:
    """The most memory that planning a recipe held."""
    return used([*RECIPE, "plan", str(path)]).ru_maxrss / 1024


if __name__ == "__main__":
    main()
