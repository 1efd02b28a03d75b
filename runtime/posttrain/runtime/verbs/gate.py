"""Decides a gate: every condition is shown to hold, shown not to hold, or left open by the data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import durable
from posttrain.runtime.context import Context
from posttrain.runtime.verdicts import compared, decided
from posttrain.spec.extension import Verb

EXTENSION = Verb(name="gate", summary="A verdict over metrics: pass, fail or inconclusive.")


def run(context: Context) -> None:
    conditions = [_decide(condition, context) for condition in context.params["conditions"]]
    verdicts = {condition["verdict"] for condition in conditions}
    verdict = "fail" if "fail" in verdicts else "inconclusive" if "inconclusive" in verdicts else "pass"
    result = {"verdict": verdict, "conditions": conditions}
    durable.write_json(context.out / "verdict.json", result)
    context.facts.update(result)


def _decide(condition: Mapping[str, Any], context: Context) -> dict[str, Any]:
    seed, confidence = context.params["seed"], condition["confidence"]
    metric = condition["metric"]
    scored = _items(context.inputs[f"eval:{metric['eval']}"], metric["name"])
    if condition["kind"] == "better_than":
        other = condition["baseline"]
        baseline = _items(context.inputs[f"eval:{other['eval']}"], other["name"])
        found = compared(scored[1], baseline[1], condition["margin"], confidence, seed)
    else:
        found = decided(*scored, condition["kind"], condition["threshold"], confidence, seed)
    return {"text": condition["text"], "kind": condition["kind"], "confidence": confidence, **found}


def _items(folder: Path, name: str) -> tuple[str, dict[int, float]]:
    """The kind of a metric, and its value for every item."""
    import duckdb

    metric = durable.read_json(folder / "metrics.json")[name]
    column = '"node:' + metric["node"].replace('"', '""') + '"'
    rows = duckdb.execute(
        f"SELECT item, avg({column}::DOUBLE) FROM read_parquet(?) WHERE {column} IS NOT NULL"
        " GROUP BY item ORDER BY item",
        [str(folder / "completions.parquet")],
    ).fetchall()
    return metric["kind"], {int(item): float(value) for item, value in rows}
