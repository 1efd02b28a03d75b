"""Runs a benchmark stage: evaluates models on lm-eval tasks, with the output files of evals.

completions.parquet    one row per item: task, prompt, answer, the value of every metric
metrics.json           each metric with its confidence interval and number of items
breakdowns.json        empty: a benchmark has tasks instead
comparisons.json       paired comparisons of every two models
tasks.json             the version, few-shot examples, items and aggregate metrics of every task
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import Interrupted
from posttrain.runtime.evaluation import metric_tables
from posttrain.runtime.evaluation.lm_eval import harness, item_rows
from posttrain.runtime.evaluation.lm_eval.task_loader import TaskLoader
from posttrain.runtime.process_environment import without_secrets
from posttrain.runtime.rows_io import write_rows
from posttrain.runtime.step_context import StepContext
from posttrain.spec.process_variables import HUB_CREDENTIAL
from posttrain.spec.step_params.eval_params import BenchmarkStepParams
from posttrain.spec.step_params.generation_params import ModelTarget

_MAX_REPORTED_SAMPLES = 40  # samples of each model in the report
TaskResult = Mapping[str, Any]


def run_benchmark(context: StepContext[BenchmarkStepParams]) -> None:
    """Run a benchmark step."""
    context.events.emit("phase", name="loading the tasks")
    tasks = TaskLoader(context)
    results = {
        model_spec.name: _run_tasks(context, model_spec, tasks) for model_spec in context.params.models
    }
    models = {model: item_rows.item_rows(done, context.params.groups) for model, done in results.items()}
    definitions = item_rows.metric_definitions(next(iter(results.values())), context.params)
    metrics: dict[str, Any] = {}
    for model, flat in models.items():
        for name, metric in definitions.items():
            measured = metric_tables.measure_metrics(
                item_rows.rows_with_metric(flat, metric["node"]), {name: metric}, context.params.seed
            )
            several = context.params.multiple_models
            metrics[f"{model}.{name}" if several else name] = (
                {**measured[name], "model": model} if several else measured[name]
            )
    comparisons = metric_tables.compare_models(models, definitions, context.params.seed)
    all_rows = [{"model": model, **row} for model, flat in models.items() for row in flat]
    summaries = {model: item_rows.task_summaries(done) for model, done in results.items()}
    write_rows(context.out / "completions.parquet", all_rows)
    atomic_io.write_json(context.out / "metrics.json", metrics)
    atomic_io.write_json(context.out / "breakdowns.json", [])
    atomic_io.write_json(context.out / "comparisons.json", comparisons)
    atomic_io.write_json(context.out / "tasks.json", summaries)
    context.facts.update(metrics=metrics, comparisons=comparisons, completions=len(all_rows), tasks=summaries)
    for model, flat in models.items():
        _report_samples(context, model, flat, list(definitions))


def _run_tasks(
    context: StepContext[BenchmarkStepParams], model_spec: ModelTarget, tasks: TaskLoader
) -> list[TaskResult]:
    """Run every task with one model. Tasks that an earlier attempt completed are not repeated."""
    folder = context.work / "tasks" / re.sub(r"[^\w-]", "-", model_spec.role)
    folder.mkdir(parents=True, exist_ok=True)
    results = {name: atomic_io.read_json(folder / f"{name}.json") for name in tasks.names}
    missing = [name for name in tasks.names if results[name] is None]
    if missing:
        with harness.open_lm(context, model_spec) as model:
            for number, name in enumerate(missing, len(tasks.names) - len(missing) + 1):
                if context.stop.requested:
                    raise Interrupted
                context.events.emit("phase", name=_phase(context, model_spec, name, number, len(tasks.names)))
                with without_secrets(keep=(HUB_CREDENTIAL,)):  # its data can need the token of the hub
                    task = tasks.load(name)
                results[name] = harness.run_task(context, model, task, name)
                atomic_io.write_json(folder / f"{name}.json", results[name])
    return [results[name] for name in tasks.names]


def _phase(
    context: StepContext[BenchmarkStepParams], model_spec: ModelTarget, task: str, number: int, count: int
) -> str:
    of = f"{model_spec.name} " if context.params.multiple_models else ""
    return f"{of}{task} ({number} of {count})"


def _report_samples(
    context: StepContext[BenchmarkStepParams],
    model: str,
    flat: Sequence[item_rows.Row],
    metrics: Sequence[str],
) -> None:
    """Emit samples, alternating between tasks."""
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
