"""Synthetic products of evals, and a gate step that reads them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.runtime.events import EventWriter
from posttrain.runtime.plan_params import read_step_params
from posttrain.runtime.step_context import StepContext
from posttrain.spec.plan import SourceLocation, Step

Items = Sequence[Sequence[float | None]]


def write_eval_product(folder: Path, **metrics: Items) -> Path:
    """Write the product of an eval, from a list of completion values per item for each metric."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    first = next(iter(metrics.values()))
    columns: dict[str, list[Any]] = {"item": [n for n, values in enumerate(first) for _ in values]}
    columns["model"] = ["it"] * len(columns["item"])
    for name, items in metrics.items():
        columns[f"node:{name}"] = [value for values in items for value in values]
    pq.write_table(pa.table(columns), folder / "completions.parquet")
    result = {name: {"kind": "rate", "node": name} for name in metrics}
    (folder / "metrics.json").write_text(json.dumps(result))
    return folder


def rate(right: int, count: int) -> Items:
    return [[1.0]] * right + [[0.0]] * (count - right)


def at_least(threshold: float, metric: str = "right", **given: Any) -> dict[str, Any]:
    return condition("at_least", metric, threshold=threshold, **given)


def better_than(margin: float = 0.0, metric: str = "right") -> dict[str, Any]:
    found = condition("better_than", metric, margin=margin)
    return {**found, "baseline": {"eval": "before", "name": metric}}


def condition(kind: str, metric: str, **given: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "metric": {"eval": "after", "name": metric},
        "baseline": None,
        "threshold": None,
        "margin": 0.0,
        "confidence": 0.95,
        "text": f"{metric} {kind}",
        **given,
    }


def run_gate(
    folder: Path, inputs: Mapping[str, Path], *conditions: Mapping[str, Any], correction: str = "holm"
) -> dict[str, Any]:
    """Run the verb, and return its output."""
    from posttrain.runtime.verbs.gate import run

    outcomes = {"on_fail": "stop", "on_inconclusive": "stop"}
    params = {"conditions": list(conditions), "correction": correction, "seed": 1, **outcomes}
    context = gate_context(folder, inputs, params)
    run(context)
    result = json.loads((context.out / "verdict.json").read_text())
    assert result == context.facts
    return result


def gate_context(folder: Path, inputs: Mapping[str, Path], params: Mapping[str, Any]) -> StepContext:
    out = folder / "files"
    out.mkdir(parents=True)
    step = Step(
        id="ship",
        kind="gate",
        entry="posttrain.runtime.verbs.gate:run",
        params=params,
        place=SourceLocation(file="recipe.yaml", line=1, column=1),
        key="0" * 64,
        key_parts={},
        key_values={},
    )
    return StepContext(
        step=step,
        params=read_step_params(step),
        inputs={f"eval:{name}": path for name, path in inputs.items()},
        files={},
        out=out,
        work=folder,
        events=EventWriter(folder / "events.jsonl"),
    )
