"""Puts lm-eval's tasks to models and tells the figures as evals do.

completions.parquet    a row an item: task, prompt, what the model chose or wrote, every metric's value
metrics.json           each metric with its interval and how many items it is made from
breakdowns.json        empty: what an eval has there is a task here
comparisons.json       every two models, item by item
tasks.json             of every task its version, worked examples, items, and figures that are no means
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import Interrupted
from posttrain.runtime.evaluation import metric_tables
from posttrain.runtime.evaluation.lm_eval import harness, item_rows
from posttrain.runtime.evaluation.lm_eval.task_loader import TaskLoader
from posttrain.runtime.rows_io import write_rows
from posttrain.runtime.step_context import StepContext

_MAX_REPORTED_SAMPLES = 40  # samples of each model that the report gets
TaskResult = Mapping[str, Any]


def run_benchmark(context: StepContext) -> None:
    """The whole of a benchmark step."""
    context.events.emit("phase", name="reading the tasks")
    tasks = TaskLoader(context)
    done = {subject["name"]: _run_tasks(context, subject, tasks) for subject in context.params["models"]}
    models = {model: item_rows.item_rows(found, context.params["groups"]) for model, found in done.items()}
    wanted = item_rows.metric_definitions(next(iter(done.values())), context.params)
    metrics: dict[str, Any] = {}
    for model, flat in models.items():
        for name, metric in wanted.items():
            told = metric_tables.measure_metrics(
                item_rows.rows_with_metric(flat, metric["node"]), {name: metric}, context.params["seed"]
            )
            several = context.params["multiple_models"]
            metrics[f"{model}.{name}" if several else name] = (
                {**told[name], "model": model} if several else told[name]
            )
    comparisons = metric_tables.compare_models(models, wanted, context.params["seed"])
    every = [{"model": model, **row} for model, flat in models.items() for row in flat]
    about = {model: item_rows.task_summaries(found) for model, found in done.items()}
    write_rows(context.out / "completions.parquet", every)
    atomic_io.write_json(context.out / "metrics.json", metrics)
    atomic_io.write_json(context.out / "breakdowns.json", [])
    atomic_io.write_json(context.out / "comparisons.json", comparisons)
    atomic_io.write_json(context.out / "tasks.json", about)
    context.facts.update(metrics=metrics, comparisons=comparisons, completions=len(every), tasks=about)
    for model, flat in models.items():
        _report_samples(context, model, flat, list(wanted))


def _run_tasks(context: StepContext, subject: Mapping[str, Any], tasks: TaskLoader) -> list[TaskResult]:
    """Every task as one model answers it. A task that an earlier attempt has ended is not put again."""
    kept = context.work / "tasks" / re.sub(r"[^\w-]", "-", subject["role"])
    kept.mkdir(parents=True, exist_ok=True)
    found = {name: atomic_io.read_json(kept / f"{name}.json") for name in tasks.names}
    missing = [name for name in tasks.names if found[name] is None]
    if missing:
        with harness.open_lm(context, subject) as model:
            for number, name in enumerate(missing, len(tasks.names) - len(missing) + 1):
                if context.stop.requested:
                    raise Interrupted
                context.events.emit("phase", name=_phase(context, subject, name, number, len(tasks.names)))
                found[name] = harness.run_task(context, model, tasks.load(name), name)
                atomic_io.write_json(kept / f"{name}.json", found[name])
    return [found[name] for name in tasks.names]


def _phase(context: StepContext, subject: Mapping[str, Any], task: str, number: int, count: int) -> str:
    of = f"{subject['name']} " if context.params["multiple_models"] else ""
    return f"{of}{task} ({number} of {count})"


def _report_samples(
    context: StepContext, model: str, flat: Sequence[item_rows.Row], metrics: Sequence[str]
) -> None:
    """Samples for those who watch, the first of each task in turn."""
    for row in item_rows.interleave_tasks(flat, _MAX_REPORTED_SAMPLES):
        values = {name: row[f"node:{name}"] for name in metrics if row[f"node:{name}"] is not None}
        context.events.emit(
            "sample",
            step=0,
            prompt=row["prompt"],
            completion=row["completion"] or "",
            values=values,
            model=model,
        )
