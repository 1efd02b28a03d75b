"""What is kept of the samples of each row: all, the best, a pair, or those above a score."""

from collections.abc import Callable, Iterable
from typing import Any

from posttrain.runtime.step_context import StepContext

Row = dict[str, Any]
Groups = Iterable[list[Row]]


def select_rows(context: StepContext, flat: list[Row]) -> list[Row]:
    """The rows of the product, from rows with one completion each; `item` numbers the rows of the data."""
    keep = context.params["keep"]
    if context.params["reward"] is not None:
        _score_rows(context, flat)
    if isinstance(keep, dict):
        return [
            _drop_bookkeeping(row)
            for row in flat
            if row["score"] is not None and row["score"] >= keep["min_score"]
        ]
    chosen = _SELECTIONS[keep](_group_by_item(flat))
    context.facts["groups"] = len({row["item"] for row in flat})
    return [_drop_bookkeeping(row) for row in chosen]


def _score_rows(context: StepContext, flat: list[Row]) -> None:
    """Put the reward of each completion into the column `score`."""
    from posttrain.runtime.rewards.engine.batch import TOKENS
    from posttrain.runtime.rewards.engine.graph import Graph

    context.events.emit("phase", name="scoring")
    graph = Graph.from_step(context)
    given = {name: [row[name] for row in flat] for name in ("completion", *graph.columns)}
    given[TOKENS] = [row.get("tokens") for row in flat]
    scores = graph.evaluate(given, [row["item"] for row in flat]).values[graph.returns]
    for row, value in zip(flat, scores, strict=True):
        row["score"] = None if value is None else float(value)


def _group_by_item(flat: list[Row]) -> Groups:
    found: dict[int, list[Row]] = {}
    for row in flat:
        found.setdefault(row["item"], []).append(row)
    return found.values()


def _all(groups: Groups) -> list[Row]:
    return [row for group in groups for row in group]


def _best(groups: Groups) -> list[Row]:
    """The row of each group that scores highest, the first of equals; none where none has a score."""
    return [ranked[0] for group in groups if (ranked := _rank_by_score(group))]


def _pairs(groups: Groups) -> list[Row]:
    """The best and the worst of each group; none where all score alike: there is nothing to prefer."""
    found: list[Row] = []
    for group in groups:
        ranked = _rank_by_score(group)
        if ranked and ranked[0]["score"] > ranked[-1]["score"]:
            found.append(_pair(ranked[0], ranked[-1]))
    return found


def _pair(best: Row, worst: Row) -> Row:
    shared = {name: value for name, value in best.items() if name not in ("completion", "finish", "score")}
    return {
        **shared,
        "chosen": best["completion"],
        "rejected": worst["completion"],
        "chosen_score": best["score"],
        "rejected_score": worst["score"],
    }


def _rank_by_score(group: list[Row]) -> list[Row]:
    return sorted((row for row in group if row["score"] is not None), key=lambda row: -row["score"])


_SELECTIONS: dict[str, Callable[[Groups], list[Row]]] = {"all": _all, "best": _best, "pair": _pairs}


def _drop_bookkeeping(row: Row) -> Row:
    """The row without what only numbered it."""
    return {name: value for name, value in row.items() if name not in ("item", "tokens")}
