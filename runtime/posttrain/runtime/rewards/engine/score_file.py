"""Scores the rows of a JSON Lines file with a reward graph."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.runtime.rewards.engine.graph import Graph, Scores
from posttrain.spec.record import record

_MAX_SHOWN = 60  # characters of a wrong value in a message

Row = Mapping[str, Any]


class RowFileError(ValueError):
    """A file without rows, or with a row that the graph cannot read."""


@record(kw_only=True)
class ScoredRows:
    """The rows of a file, and the values of all nodes for them."""

    rows: Sequence[Row]
    scores: Scores


def score_file(path: Path, graph: Graph) -> ScoredRows:
    """Evaluate a graph for the rows of a file.

    Raises `RowFileError` for rows that do not fit the graph, and StepError when a node fails.
    """
    rows = _read_rows(path, graph.reads)
    columns = {name: [row[name] for row in rows] for name in graph.reads}
    return ScoredRows(rows=rows, scores=graph.evaluate(columns, _prompt_groups(rows)))


def _read_rows(path: Path, reads: Mapping[str, str]) -> list[Row]:
    """Read the rows of a file, and check that each has every column that the graph reads."""
    rows: list[Row] = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        if line.strip():
            rows.append(_parse_row(f"{path}:{number}", line, reads))
    if not rows:
        raise RowFileError(f"{path} has no rows")
    return rows


def _parse_row(place: str, line: str, reads: Mapping[str, str]) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RowFileError(f"{place} is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise RowFileError(f"{place} is not a JSON object")
    for name, type in reads.items():
        if name not in row:
            raise RowFileError(f"{place} has no `{name}`, which the reward reads")
        if not _matches_type(row[name], type):
            raise RowFileError(f"{place}: `{name}` must be {type}; got {json.dumps(row[name])[:_MAX_SHOWN]}")
    return row


def _matches_type(value: Any, type: str) -> bool:
    match type:
        case "text":
            return value is None or isinstance(value, str)
        case "boolean":
            return value is None or isinstance(value, bool)
        case "integer" | "number":
            kinds = int if type == "integer" else int | float
            return value is None or (isinstance(value, kinds) and not isinstance(value, bool))
        case _:
            return True


def _prompt_groups(rows: Sequence[Row]) -> list[int] | None:
    """The group number of each row: equal for equal prompts. None if a row has no `prompt`."""
    if not all("prompt" in row for row in rows):
        return None
    numbers: dict[str, int] = {}
    return [numbers.setdefault(json.dumps(row["prompt"]), len(numbers)) for row in rows]
