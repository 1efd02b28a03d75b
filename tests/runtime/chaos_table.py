"""Counts the kills in a record of the chaos test, by victim and phase.

python -m tests.runtime.chaos_table kills.jsonl ...
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.runtime.chaos_faults import VICTIMS
from tests.runtime.chaos_phases import PHASES


def markdown_table(kills: Sequence[dict[str, Any]]) -> Iterable[str]:
    """The lines of a Markdown table: a row for each phase, a column for each victim."""
    counts = Counter((kill["phase"], kill["victim"]) for kill in kills)
    yield "| at that instant | " + " | ".join(VICTIMS) + " | all |"
    yield "|---" * (len(VICTIMS) + 2) + "|"
    for phase in PHASES:
        row = [counts[phase, victim] for victim in VICTIMS]
        yield f"| {phase} | " + " | ".join(map(str, [*row, sum(row)])) + " |"
    every = [sum(counts[phase, victim] for phase in PHASES) for victim in VICTIMS]
    yield "| all | " + " | ".join(map(str, [*every, sum(every)])) + " |"


def count_steps(kills: Sequence[dict[str, Any]]) -> Counter[str]:
    """How often each step was running at the time of a kill."""
    return Counter(sight["id"] for kill in kills for sight in kill["under way"])


def main(files: Sequence[str]) -> None:
    kills = [json.loads(line) for file in files for line in Path(file).read_text().splitlines()]
    print(*markdown_table(kills), sep="\n")
    print("\nunder way:", ", ".join(f"{id} {count}" for id, count in count_steps(kills).most_common()))
    print("seeds:", *sorted({kill["seed"] for kill in kills}))


if __name__ == "__main__":
    main(sys.argv[1:])
