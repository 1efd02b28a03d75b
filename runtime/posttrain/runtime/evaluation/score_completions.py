"""Joins completions with their data rows, and scores them with a reward graph."""

from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.engines.completion_log import Completion
from posttrain.runtime.rewards.engine.batch import EPISODES, TOKENS
from posttrain.runtime.rewards.engine.graph import Graph

Row = dict[str, Any]


def completion_rows(rows: Sequence[Row], completions: Sequence[Sequence[Completion]]) -> list[Row]:
    """A row for each completion. `item` is the number of the data row."""
    return [
        {**row, "item": item, "completion": one.text, "tokens": one.tokens, "finish": one.finish}
        for item, (row, samples) in enumerate(zip(rows, completions, strict=True))
        for one in samples
    ]


def score_rows(flat: Sequence[Row], graph: Graph) -> None:
    """Add the value of every node as `node:NAME`, and the reasons as `reason:NAME`.

    The numbers and conditions that the graph reads from the data are added like nodes: a metric can be one. A
    failed completion has no values: it is neither correct nor wrong.
    """
    present = [place for place, row in enumerate(flat) if row["completion"] is not None]
    columns = {name: [flat[place][name] for place in present] for name in ("completion", *graph.columns)}
    if flat and EPISODES in flat[0]:
        columns[EPISODES] = [flat[place][EPISODES] for place in present]
    columns[TOKENS] = [flat[place].get("tokens") for place in present]
    scores = graph.evaluate(columns, [flat[place]["item"] for place in present])
    values = {**graph.measurable_columns(columns), **scores.values}
    for kind, results in (("node", values), ("reason", scores.reasons)):
        for name, column in results.items():
            _set_column(flat, f"{kind}:{name}", dict(zip(present, column, strict=True)))


def _set_column(flat: Sequence[Row], name: str, values: Mapping[int, Any]) -> None:
    for place, row in enumerate(flat):
        row[name] = values.get(place)
