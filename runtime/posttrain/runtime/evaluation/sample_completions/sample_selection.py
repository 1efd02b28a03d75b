"""Selects samples of each row: all, the best, a preference pair, or those above a score."""

from collections.abc import Callable, Iterable
from typing import Any

from posttrain.runtime.step_context import StepContext
from posttrain.spec.inference import MinScore
from posttrain.spec.step_params.artifact_params import GenerateStepParams

Row = dict[str, Any]
Groups = Iterable[list[Row]]


def select_rows(context: StepContext[GenerateStepParams], flat: list[Row]) -> list[Row]:
    """Select the output rows from rows with one completion each. `item` is the number of the data row."""
    keep = context.params.keep
    if context.params.reward is not None:
        _score_rows(context, flat)
    if isinstance(keep, MinScore):
        return [
            _drop_bookkeeping(row)
            for row in flat
            if row["score"] is not None and row["score"] >= keep.min_score
        ]
    chosen = _SELECTIONS[keep](_group_by_item(flat))
    context.facts["groups"] = len({row["item"] for row in flat})
    return [_drop_bookkeeping(row) for row in chosen]


def _score_rows(context: StepContext[GenerateStepParams], flat: list[Row]) -> None:
    """Add the reward of each completion as the column `score`."""
    from posttrain.runtime.rewards.engine.batch import TOKENS
    from posttrain.runtime.rewards.engine.graph import Graph

    context.events.emit("phase", name="scoring")
    graph = Graph.from_step(context)
    columns = {name: [row[name] for row in flat] for name in ("completion", *graph.columns)}
    columns[TOKENS] = [row.get("tokens") for row in flat]
    scores = graph.evaluate(columns, [row["item"] for row in flat]).values[graph.returns]
    for row, value in zip(flat, scores, strict=True):
        row["score"] = None if value is None else float(value)


def _group_by_item(flat: list[Row]) -> Groups:
    groups: dict[int, list[Row]] = {}
    for row in flat:
        groups.setdefault(row["item"], []).append(row)
    return groups.values()


def _all(groups: Groups) -> list[Row]:
    return [row for group in groups for row in group]


def _best(groups: Groups) -> list[Row]:
    """The row with the highest score in each group, the first of ties. Skips groups without scores."""
    return [ranked[0] for group in groups if (ranked := _rank_by_score(group))]


def _pairs(groups: Groups) -> list[Row]:
    """The best and the worst row of each group. Groups with equal scores are skipped."""
    pairs: list[Row] = []
    for group in groups:
        ranked = _rank_by_score(group)
        if ranked and ranked[0]["score"] > ranked[-1]["score"]:
            pairs.append(_pair(ranked[0], ranked[-1]))
    return pairs


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
    """The row without its internal columns."""
    return {name: value for name, value in row.items() if name not in ("item", "tokens")}
