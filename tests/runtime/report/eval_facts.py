"""Builds scored completions, and the facts that an eval reports for them."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.evaluation import metric_tables

METRICS = {
    "accuracy": {"kind": "rate", "node": "right"},
    "length": {"kind": "mean", "node": "words"},
}
TOPICS = ("algebra", "algebra", "algebra", "geometry", "geometry", "a <b>bold</b> topic")
Row = dict[str, Any]


def scored_rows(skill: float, items: int = 60, seed: int = 1) -> list[Row]:
    """One completion per item; a few are unscored, truncated or timed out."""
    draw = random.Random(seed)
    rows: list[Row] = []
    for item in range(items):
        finish = "timeout" if item % 29 == 7 else "length" if item % 17 == 3 else "stop"
        right = None if finish == "timeout" else draw.random() < skill
        words = None if right is None else draw.randint(5, 40)
        topic = TOPICS[item % len(TOPICS)]
        rows.append(
            {"item": item, "topic": topic, "finish": finish, "node:right": right, "node:words": words}
        )
    metric_tables.add_rates(rows, "right")
    return rows


def make_eval_facts(
    models: Mapping[str, Sequence[Row]], by: Sequence[str] = (), most: int = 100
) -> dict[str, Any]:
    """The facts of an eval of these models; with several models, metrics are named by model."""
    definitions = metric_tables.add_pass_at_k([], {**metric_tables.COMPLETION_RATES, **METRICS})
    metrics: dict[str, Any] = {}
    breakdowns: list[Any] = []
    for model, rows in models.items():
        for name, metric in metric_tables.measure_metrics(rows, definitions, 1).items():
            if name in METRICS and len(models) > 1:
                metrics[f"{model}.{name}"] = {**metric, "model": model}
            elif name in METRICS:
                metrics[name] = metric
        breakdowns += [
            {"model": model, **one} for one in metric_tables.compute_breakdowns(rows, definitions, by, 1)
        ]
    return {
        "metrics": metrics,
        "comparisons": metric_tables.compare_models(models, definitions, 1),
        "breakdowns": breakdowns[:most],
        "rates": {model: completion_rates(rows) for model, rows in models.items()},
        **completion_rates([row for rows in models.values() for row in rows]),
    }


def completion_rates(rows: Sequence[Row]) -> dict[str, float]:
    late = sum(row["finish"] == "timeout" for row in rows) / len(rows)
    cut = sum(row["finish"] == "length" for row in rows) / len(rows)
    return {"truncated": cut, "unscored": late, "timed_out": late, "failed": 0.0}
