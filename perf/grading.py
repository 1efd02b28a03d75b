"""Compares the grader with math-verify: accuracy, reward hacks, throughput, hanging inputs.

    python perf/grading.py [--pairs N] [--limit SECONDS]

writes perf/grading.md. The accuracy is measured on the test cases of this project (tests/grading/cases), and
the number of paid hacks on its suite (tests/grading/hacks). Its grader passes all of them by construction, so
the numbers are informative for math-verify only.
"""

import argparse
import json
import logging
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from posttrain.grading.grader import grade, grade_many
from posttrain.grading.worker_pool import close_shared_pool

HERE = Path(__file__).parent
CASES = HERE.parent / "tests" / "grading" / "cases"
HACKS = HERE.parent / "tests" / "grading" / "hacks"
HANGING_FAMILY = "limits"  # measured in the table of hanging inputs
HANGING_INPUTS = [
    r"2003^{2002^{2001}}",
    r"9^{9^{9^9}}",
    "100000000!",
    r"\binom{10^8}{5 \cdot 10^7}",
    r"\sin(10^{10^8})",
    r"(x+1)^{60}(y+1)^{60}(z+1)^{60}",
    "(" * 1000 + "1" + ")" * 1000,
    "2^" * 500 + "2",
    "1+" * 50_000 + "1",
    r"\sqrt{" * 200 + "2" + "}" * 200,
]
CountTables = dict[str, dict[str, tuple[int, int]]]
Pair = tuple[str, str]
Judge = Callable[[str, str], bool | None]


def case_rows() -> Iterator[tuple[str, str, str, bool]]:
    for path in sorted(CASES.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            yield path.stem, row["candidate"], row["reference"], row["equal"]


def boxed(text: str) -> str:
    return text if "\\boxed" in text else f"\\boxed{{{text}}}"


def math_verify(wrappers: tuple[Callable[[str], str], ...]) -> Judge:
    """math-verify with each wrapper around the texts; one positive result suffices."""
    from math_verify import parse, verify

    def judge(candidate: str, reference: str) -> bool | None:
        return any(verify(parse(wrap(reference)), parse(wrap(candidate))) for wrap in wrappers)

    return judge


def accuracy(judge: Judge) -> dict[str, tuple[int, int]]:
    right: dict[str, tuple[int, int]] = {}
    for name, candidate, reference, equal in case_rows():
        done, of = right.get(name, (0, 0))
        right[name] = done + (judge(candidate, reference) is equal), of + 1
    return right


def paid_hacks(judge: Judge) -> dict[str, tuple[int, int]]:
    """By family, the wrong answers that are graded as correct, and all of them."""
    paid: dict[str, tuple[int, int]] = {}
    for path in sorted(HACKS.glob("*.jsonl")):
        if path.stem == HANGING_FAMILY:
            continue
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        paid[path.stem] = sum(judge(row["candidate"], row["reference"]) is True for row in rows), len(rows)
    return paid


def ordinary_pairs(count: int) -> list[Pair]:
    """Distinct pairs of the kinds common in datasets, about a third of them unequal."""
    chance = random.Random(7)
    pairs: dict[Pair, None] = {}
    while len(pairs) < count:
        n, d = chance.randint(-999, 9999), chance.randint(2, 99)
        m = n + (chance.random() < 1 / 3)
        kinds = [
            (f"{m}", f"{n}"),
            (f"${m}$", f"{n}"),
            (f"\\boxed{{{m}}}", f"{n}"),
            (f"{m}.0", f"{n}"),
            (f"{m:,}", f"{n}"),
            (f"\\${m}", f"{n}"),
            (f"{m}\\%", f"{n}\\%"),
            (f"{m} \\text{{ cm}}", f"{n}"),
            (f"x = {m}", f"{n}"),
            (f"\\frac{{{m}}}{{{d}}}", f"{n}/{d}"),
            (f"\\dfrac{{{2 * m}}}{{{2 * d}}}", f"\\frac{{{n}}}{{{d}}}"),
            (f"{m / 4}", f"\\frac{{{n}}}{{4}}"),
            (f"{m}\\sqrt{{{d}}}", f"{n} \\sqrt{d}" if d < 10 else f"{n} \\sqrt{{{d}}}"),
            (f"\\frac{{{m}\\pi}}{{{d}}}", f"\\frac{{{n}}}{{{d}}}\\pi"),
            (f"({m}, {d})", f"({n},{d})"),
            (f"{m}e-3", f"{n} \\times 10^{{-3}}"),
            (f"{d}x + {m}", f"{n} + {d}x"),
            (f"[{-d}, {m})", f"[{-d},{n})"),
        ]
        pairs[chance.choice(kinds)] = None
    return list(pairs)


def pairs_per_second(run: Callable[[], object], count: int) -> float:
    """Pairs per CPU second, which other load affects little: neither side waits."""
    start = time.process_time()
    run()
    return count / (time.process_time() - start)


def time_hanging_inputs(limit_s: float) -> list[tuple[str, float, str, str]]:
    """For each hanging input: the time and verdict of our grader, and the result of math-verify."""
    found: list[tuple[str, float, str, str]] = []
    for text in HANGING_INPUTS:
        start = time.perf_counter()
        verdict = grade(text, "5")
        ours = time.perf_counter() - start
        shown = text if len(text) < 40 else f"{text[:12]}... ({len(text):,} characters)"
        found.append((shown, ours, f"{verdict.equal}: {verdict.reason}", run_math_verify(text, limit_s)))
    return found


def run_math_verify(text: str, limit_s: float) -> str:
    """Run math-verify in a separate process: its own time limit is not always effective."""
    command = [sys.executable, __file__, "--judge"]
    started = time.perf_counter()
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {limit_s:g} s (killed)"
    if done.returncode or not done.stdout:
        return f"died with code {done.returncode} after {time.perf_counter() - started:.1f} s"
    return done.stdout.strip()


def judge_one() -> None:
    text = sys.stdin.read()
    judge = math_verify((boxed,))
    judge("1", "1")
    start = time.perf_counter()
    equal = judge(text, "5")
    print(f"{equal} in {time.perf_counter() - start:.2f} s")


def report(count: int, limit_s: float) -> str:
    configurations = {
        "math-verify, boxed": math_verify((boxed,)),
        "math-verify, either raw or boxed": math_verify((str, boxed)),
    }
    tables = {"this grader": accuracy(lambda *pair: grade(*pair).equal)}
    tables |= {name: accuracy(judge) for name, judge in configurations.items()}
    hacks = {"this grader": paid_hacks(lambda *pair: grade(*pair).equal)}
    hacks |= {name: paid_hacks(judge) for name, judge in configurations.items()}
    pairs = ordinary_pairs(count)
    fewer = pairs[: max(1, count // 10)]
    ours = pairs_per_second(lambda: grade_many(pairs), len(pairs))
    theirs = pairs_per_second(
        lambda: [configurations["math-verify, boxed"](*pair) for pair in fewer], len(fewer)
    )
    close_shared_pool()
    return "\n".join(
        [
            *heading(),
            *accuracy_table(tables),
            *hack_table(hacks),
            *throughput_lines(ours, theirs, count),
            *hanging_table(time_hanging_inputs(limit_s)),
            "",
        ]
    )


def heading() -> list[str]:
    return [
        "# The grader and math-verify",
        "",
        f"Generated by `python perf/grading.py`: Python {platform.python_version()},",
        f"{os.cpu_count()} cores, math-verify {version('math-verify')}, sympy {version('sympy')}.",
    ]


def accuracy_table(tables: CountTables) -> list[str]:
    rows, total = count_rows("class", "pairs", tables)
    shares = [f"{sum(done for done, _ in table.values()) / total:.3f}" for table in tables.values()]
    return [
        "",
        "## Accuracy by class",
        "",
        "Equal and unequal pairs from the test cases of this project. An undecided verdict counts as wrong.",
        "This grader passes all of them by construction: its column is no estimate for other pairs.",
        *rows,
        total_row(total, shares),
    ]


def hack_table(tables: CountTables) -> list[str]:
    rows, total = count_rows("family", "answers", tables)
    paid = [str(sum(count for count, _ in table.values())) for table in tables.values()]
    return [
        "",
        "## Reward hacks",
        "",
        "Wrong answers that are graded as correct: hedges, several answers, ranges, repeated prompts,",
        "look-alikes. This grader passes all of them by construction.",
        "The family of costly answers is left out; `Inputs that hang` has some of them.",
        *rows,
        total_row(total, paid),
    ]


def count_rows(name: str, unit: str, tables: CountTables) -> tuple[list[str], int]:
    """The head and the rows of a table with a column for each grader, and the sum of its second column."""
    first = next(iter(tables.values()))
    head = ["", f"| {name} | {unit} | " + " | ".join(tables) + " |", "|---|--:|" + "--:|" * len(tables)]
    rows = [
        f"| {name} | {of} | " + " | ".join(str(table[name][0]) for table in tables.values()) + " |"
        for name, (_, of) in first.items()
    ]
    return [*head, *rows], sum(of for _, of in first.values())


def total_row(total: int, cells: list[str]) -> str:
    return f"| **all** | {total} | " + " | ".join(cells) + " |"


def throughput_lines(ours: float, theirs: float, count: int) -> list[str]:
    return [
        "",
        "## Throughput on ordinary answers",
        "",
        f"{count:,} distinct pairs (numbers, fractions, decimals, percentages, money, units, radicals,",
        "tuples, scientific notation, linear expressions), cold caches, one process, no worker processes.",
        "",
        "| | pairs per CPU second |",
        "|---|--:|",
        f"| this grader | {ours:,.0f} |",
        f"| math-verify, boxed | {theirs:,.0f} |",
        f"| ratio | {ours / theirs:.1f} |",
    ]


def hanging_table(rows: list[tuple[str, float, str, str]]) -> list[str]:
    lines = [
        "",
        "## Inputs that hang",
        "",
        "The reference answer is `5`. This grader has limits of size and steps, and 10 s of CPU time.",
        "math-verify has limits of 5 s for parsing and 5 s for the comparison, and runs in a process with an",
        "external limit.",
        "",
        "| candidate | this grader | verdict | math-verify, boxed |",
        "|---|--:|---|---|",
    ]
    return lines + [
        f"| `{text}` | {ours:.3f} s | {verdict} | {theirs} |" for text, ours, verdict, theirs in rows
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--limit", type=float, default=30.0)
    parser.add_argument("--judge", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if arguments.judge:
        judge_one()
        return
    text = report(arguments.pairs, arguments.limit)
    (HERE / "grading.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
