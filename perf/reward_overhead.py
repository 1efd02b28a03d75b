"""Compares a reward graph with hand-written reward functions, and measures the speed of `recipe reward`.

    python perf/reward_overhead.py [--rows N] [--rounds N]

writes perf/reward_overhead.md. The reward is that of recipes/two-phase-reasoning/rewards.yaml. The
hand-written version is four functions of a completion and an answer, as in a TRL script. The script fails if
the values differ. Times are CPU times: medians of interleaved rounds with new completions in each round.
"""

import argparse
import json
import os
import platform
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from posttrain.compiler.rewards.standalone_reward import compile_reward
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.rewards.engine.graph import Graph, Scores

HERE = Path(__file__).parent
FILE = HERE.parent / "recipes" / "two-phase-reasoning" / "rewards.yaml"
NAME = "two_phase"
_COMMAND_ROWS = 40_000  # enough rows that the start of the command does not dominate
REASONING, OPEN, CLOSE = "<end_working_out>", "<SOLUTION>", "</SOLUTION>"
WORDS = (
    "so",
    "we",
    "add",
    "the",
    "first",
    "number",
    "to",
    "its",
    "half",
    "and",
    "check",
    "what",
    "is",
    "left",
)

_SOLUTION = re.compile(re.escape(OPEN) + "(.*?)" + re.escape(CLOSE), re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def format_exact(completion: str, answer: str) -> float:
    places = [completion.find(tag) for tag in (REASONING, OPEN, CLOSE)]
    once = all(completion.count(tag) == 1 for tag in (REASONING, OPEN, CLOSE))
    return 3.0 if once and places == sorted(places) else 0.0


def format_near(completion: str, answer: str) -> float:
    return sum(0.5 if completion.count(tag) == 1 else -1.0 for tag in (REASONING, OPEN, CLOSE))


def right_answer(completion: str, answer: str) -> float:
    found = _SOLUTION.search(completion)
    if found is None:
        return -2.0
    solution = found[1]
    if solution == answer:
        return 5.0
    if "".join(solution.split()) == "".join(answer.split()):
        return 3.5
    try:
        off = abs(float(solution) - float(answer)) / abs(float(answer))
    except (ValueError, ZeroDivisionError):
        return -2.0
    return 2.0 if off <= 0.1 else 1.5 if off <= 0.2 else -2.0


def right_number(completion: str, answer: str) -> float:
    found = _SOLUTION.search(completion)
    number = _NUMBER.search(found[1]) if found else None
    if number is None:
        return -1.5
    try:
        off = abs(float(number[0]) - float(answer)) / abs(float(answer))
    except (ValueError, ZeroDivisionError):
        return -1.5
    return 3.0 if off == 0 else 1.5 if off <= 0.1 else 0.5 if off <= 0.2 else -1.5


HAND_WRITTEN_REWARDS = (format_exact, format_near, right_answer, right_number)
Columns = dict[str, list[str]]


def score_by_hand(columns: Columns) -> list[float]:
    pairs = list(zip(columns["completion"], columns["answer"], strict=True))
    parts = [[score(*pair) for pair in pairs] for score in HAND_WRITTEN_REWARDS]
    return [sum(row) for row in zip(*parts, strict=True)]


def make_rows(count: int, seed: int = 0) -> Columns:
    """Completions as in training: correct, nearly correct, wrong, and with malformed tags."""
    chance = random.Random(seed)
    made: Columns = {"completion": [], "answer": []}
    for _ in range(count):
        answer = chance.randint(2, 9999)
        given = chance.choice([answer, answer, answer + chance.randint(1, 3), chance.randint(2, 9999)])
        solution = chance.choice([f"{given}", f" {given} ", f"{given}.0", f"it is {given}", "unknown"])
        thinking = " ".join(chance.choices(WORDS, k=chance.randint(40, 200)))
        whole = [thinking, REASONING, OPEN, solution, CLOSE]
        if chance.random() < 0.25:
            del whole[chance.randint(1, 4)]
        made["completion"].append("".join(whole))
        made["answer"].append(str(answer))
    return made


def build_graph() -> Graph:
    source = SourceFile("rewards.yaml", FILE.read_bytes())
    found = compile_reward(CompileRequest(source=source, catalog=CATALOG, read=lambda _: None), NAME).graph
    assert found is not None, "the reward of the recipe compiles"
    return Graph.from_plan(found.step_params())


def time_interleaved(
    tasks: dict[str, Callable[[Columns], object]], count: int, rounds: int
) -> dict[str, list[float]]:
    """CPU seconds of each task, per round."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for seed in range(rounds + 1):
        columns = make_rows(count, seed)
        for name, task in tasks.items():
            start = time.process_time()
            task(columns)
            times[name].append(time.process_time() - start)
    return {name: found[1:] for name, found in times.items()}  # the first round is a warm-up


def check_equal(scores: Scores, returns: str, hand: Sequence[float]) -> None:
    """Check that both versions return the same value for every row."""
    pairs = zip(scores.values[returns], hand, strict=True)
    differ = [row for row, (one, other) in enumerate(pairs) if one != other]
    assert not differ, f"rows {differ[:5]} of {len(differ)} differ"


def time_command(columns: Columns, folder: Path) -> float:
    """CPU seconds of `recipe reward` on the rows of a file."""
    path = folder / "rows.jsonl"
    lines = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "posttrain.cli.main", "reward", str(FILE), NAME, "--rows", str(path)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (folder / "out.jsonl").open("w", encoding="utf-8") as out:
        subprocess.run([*command, "--format", "jsonl"], stdout=out, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len((folder / "out.jsonl").read_text(encoding="utf-8").splitlines()) == len(columns["answer"])
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def report(count: int, rounds: int) -> str:
    columns, ready = make_rows(count), build_graph()
    check_equal(ready.evaluate(dict(columns)), ready.returns, score_by_hand(columns))
    tasks: dict[str, Callable[[Columns], object]] = {
        "graph": lambda rows: ready.evaluate(dict(rows)),
        "hand": score_by_hand,
    }
    took = time_interleaved(tasks, count, rounds)
    with tempfile.TemporaryDirectory() as name:
        many = make_rows(_COMMAND_ROWS)
        one = {key: column[:1] for key, column in many.items()}
        calls = [(time_command(one, Path(name)), time_command(many, Path(name))) for _ in range(4)][1:]
    starts, whole = (median(found) for found in zip(*calls, strict=True))
    length = sum(map(len, columns["completion"])) / count
    return "\n".join(
        [
            "# Reward graph and hand-written reward functions",
            "",
            f"Generated by `python perf/reward_overhead.py --rows {count} --rounds {rounds}`: the rewards of",
            f"`recipes/two-phase-reasoning/rewards.yaml` ({len(ready.nodes)} nodes), {count:,} completions",
            f"of {length:,.0f} characters on average, different in every round. Both return the same",
            f"value for every row. CPU time, medians of {rounds} interleaved rounds.",
            "",
            f"{platform.machine()}, {os.cpu_count()} cores; Python {platform.python_version()}.",
            "",
            "| | ms for all rows | µs per row |",
            "|---|--:|--:|",
            table_row("the graph", took["graph"], count),
            table_row("four hand-written functions", took["hand"], count),
            f"| ratio | {median_ratio(took):.2f} | |",
            "",
            "The graph also records the value of every node for every row, parses numbers exactly (1,000",
            "and 1e3 are equal, 0.1 is one tenth) and distinguishes missing answers from wrong ones. The",
            "functions do not.",
            "",
            "## `recipe reward`",
            "",
            "Reads the rows, scores them and prints the value of every node as JSON. Medians of three calls.",
            "",
            "| rows | CPU seconds |",
            "|--:|--:|",
            f"| 1 | {starts:.2f} |",
            f"| {_COMMAND_ROWS:,} | {whole:.2f} |",
            "",
            f"That is {(_COMMAND_ROWS - 1) / (whole - starts):,.0f} rows per second after the start.",
            "",
        ]
    )


def table_row(name: str, seconds: Sequence[float], count: int) -> str:
    return f"| {name} | {median(seconds) * 1e3:.1f} | {median(seconds) / count * 1e6:.1f} |"


def median_ratio(took: dict[str, list[float]]) -> float:
    """The median of the ratios per round: both sides of a round ran under the same load."""
    return median(one / other for one, other in zip(took["graph"], took["hand"], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=21)
    arguments = parser.parse_args()
    text = report(arguments.rows, arguments.rounds)
    (HERE / "reward_overhead.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
