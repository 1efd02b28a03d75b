"""Generates the tables of docs/resume.md from perf/resume.json."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "resume.md"
MARKS = ("<!-- measured by perf/resume.py -->", "<!-- end of measurements -->")
STRATEGIES = {
    "single": "one process",
    "ddp": "DDP",
    "zero1": "ZeRO-1",
    "zero2": "ZeRO-2",
    "zero3": "ZeRO-3",
    "fsdp": "FSDP2",
}
# Each process samples independently, so single steps are not comparable.
_STOCHASTIC = ("grpo", "rloo", "ppo", "dropout")
Cell = dict[str, Any]
Record = Mapping[str, Mapping[str, Cell]]


def write_tables(record: Record, cases: Iterable[str]) -> None:
    """Replace the tables between the markers of the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    text = "\n".join([MARKS[0], "", *tables(record, cases), "", MARKS[1]])
    PAGE.write_text(before + text + after, encoding="utf-8")


def tables(record: Record, cases: Iterable[str]) -> list[str]:
    """The tables: exact resume, losses relative to one process, evaluations."""
    rows = [case for case in cases if case in record]
    exact = [[case, *(verdict(record[case].get(one)) for one in STRATEGIES)] for case in rows]
    compared = [case for case in rows if not any(word in case for word in _STOCHASTIC)]
    apart = [loss_row(case, record[case]) for case in compared if "losses" in record[case].get("single", {})]
    measured = [
        evaluation_row(case, record[case]) for case in rows if "evaluated" in record[case].get("single", {})
    ]
    heads = list(STRATEGIES.values())
    return [
        *table_lines(["method", *heads], exact),
        *(["", *reasons] if (reasons := failure_reasons(record, rows)) else []),
        "",
        *table_lines(["method", f"loss in {heads[0]}", *heads[1:]], apart),
        "",
        *table_lines(["method", f"evaluations in {heads[0]}", *heads], measured),
    ]


def table_lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    ruled = "|---" * len(heads) + "|"
    return [f"| {' | '.join(heads)} |", ruled, *(f"| {' | '.join(row)} |" for row in rows)]


def verdict(cell: Cell | None) -> str:
    return "" if cell is None else cell["exact"]


def failure_reasons(record: Record, rows: Sequence[str]) -> list[str]:
    """The reason for each cell that is not `yes`."""
    return [
        f"- {case}, {STRATEGIES[one]}: {record[case][one]['why']}"
        for case in rows
        for one in STRATEGIES
        if "why" in record.get(case, {}).get(one, {})
    ]


def loss_row(case: str, cells: Mapping[str, Cell]) -> list[str]:
    """The losses of one process, and the largest relative difference of each strategy."""
    alone = cells["single"]["losses"]
    found = [cells.get(one, {}).get("losses") for one in STRATEGIES if one != "single"]
    others = ["" if losses is None else f"{max_relative_difference(alone, losses):.1e}" for losses in found]
    return [case, f"{alone[0]:.4f} to {alone[-1]:.4f}", *others]


def max_relative_difference(expected: Sequence[float], actual: Sequence[float]) -> float:
    """The largest relative difference in any step."""
    assert len(expected) == len(actual), "different numbers of steps"
    return max(abs(a - b) / abs(a) for a, b in zip(expected, actual, strict=True))


def evaluation_row(case: str, cells: Mapping[str, Cell]) -> list[str]:
    """The evaluations of one process, and the best and last step of each strategy."""
    alone = cells["single"]["evaluated"]
    drawn = any(word in case for word in _STOCHASTIC)
    values = ", ".join(f"{value:.4f}" for value in alone["values"])
    return [
        case,
        values,
        *(evaluation_text(cells.get(one, {}).get("evaluated"), alone, drawn) for one in STRATEGIES),
    ]


def evaluation_text(found: Cell | None, alone: Cell, drawn: bool) -> str:
    """The best and the last step, with a note if the values differ from those of one process."""
    if found is None:
        return ""
    steps = f"{found['best']} of {found['last']}"
    return steps if drawn or found["values"] == alone["values"] else f"{steps}, other values"
