"""Completions beside the rows that they answer, with what a reward graph makes of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.engines.completion_log import Completion
from posttrain.runtime.rewards.engine.batch import EPISODES, TOKENS
from posttrain.runtime.rewards.engine.graph import Graph

Row = dict[str, Any]


def completion_rows(rows: Sequence[Row], found: Sequence[Sequence[Completion]]) -> list[Row]:
    """A row for each completion. `item` numbers the rows of the data."""
    return [
        {**row, "item": item, "completion": one.text, "tokens": one.tokens, "finish": one.finish}
        for item, (row, completions) in enumerate(zip(rows, found, strict=True))
        for one in completions
    ]


def score_rows(flat: Sequence[Row], graph: Graph) -> None:
    """Put every node's value into the rows, under `node:NAME`, and the reasons under `reason:NAME`.

    A completion that never came has no values: it is neither right nor wrong.
    """
    there = [place for place, row in enumerate(flat) if row["completion"] is not None]
    given = {name: [flat[place][name] for place in there] for name in ("completion", *graph.columns)}
    if flat and EPISODES in flat[0]:
        given[EPISODES] = [flat[place][EPISODES] for place in there]
    given[TOKENS] = [flat[place].get("tokens") for place in there]
    scores = graph.evaluate(given, [flat[place]["item"] for place in there])
    for kind, columns in (("node", scores.values), ("reason", scores.reasons)):
        for name, column in columns.items():
            _set_column(flat, f"{kind}:{name}", dict(zip(there, column, strict=True)))


def _set_column(flat: Sequence[Row], name: str, values: Mapping[int, Any]) -> None:
    for place, row in enumerate(flat):
        row[name] = values.get(place)
