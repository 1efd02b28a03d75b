"""Converts task results to rows and metrics in the format of evals."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from posttrain.spec.keys import digest
from posttrain.spec.step_params.eval_params import BenchmarkStepParams, TaskGroup

Row = dict[str, Any]
TaskResult = Mapping[str, Any]


def item_rows(results: Sequence[TaskResult], groups: Mapping[str, TaskGroup]) -> list[Row]:
    """One row per item of all tasks. Metrics of other tasks are None."""
    nodes = _metric_nodes(results, groups)
    flat: list[Row] = []
    for task in results:
        task_groups = [group for group, summary in groups.items() if task["task"] in summary.tasks]
        for item in task["items"]:
            values = {f"{task['task']}.{metric}": value for metric, value in item["values"].items()}
            for group in task_groups:
                for metric in groups[group].metrics:
                    if metric in item["values"]:
                        values[f"{group}.{metric}"] = item["values"][metric]
            recorded = {key: item[key] for key in ("doc", "prompt", "completion", "target", "likelihoods")}
            scores = {f"node:{node}": values.get(node) for node in nodes}
            flat.append(
                {"item": _item_number(task["task"], item["doc"]), "task": task["task"], **recorded, **scores}
            )
    return flat


def _item_number(task: str, place: int) -> int:
    """The number of an item. It is the same in every stage with the task."""
    return int(digest(task)[:8], 16) << 24 | place


def _metric_nodes(results: Sequence[TaskResult], groups: Mapping[str, TaskGroup]) -> list[str]:
    """The metrics of all tasks, and of the groups whose tasks have them."""
    by_task = {task["task"]: _task_metrics(task) for task in results}
    nodes = [f"{task}.{metric}" for task, metrics in by_task.items() for metric in metrics]
    for group, summary in groups.items():
        available = {metric for task in summary.tasks for metric in by_task.get(task, ())}
        nodes += [f"{group}.{metric}" for metric in summary.metrics if metric in available]
    return nodes


def _task_metrics(task: TaskResult) -> list[str]:
    return list(dict.fromkeys(metric for item in task["items"] for metric in item["values"]))


def metric_definitions(
    results: Sequence[TaskResult], params: BenchmarkStepParams
) -> dict[str, dict[str, Any]]:
    """Every metric by name. It is a rate if the compiler declares it as one, else a mean."""
    declared = params.metrics
    return {
        node: {"kind": declared[node].kind if node in declared else "mean", "node": node}
        for node in _metric_nodes(results, params.groups)
    }


def rows_with_metric(flat: Sequence[Row], node: str) -> list[Row]:
    """The rows of the tasks that have a metric. Rows of other tasks must not count as unscored."""
    tasks = {row["task"] for row in flat if row[f"node:{node}"] is not None}
    return [row for row in flat if row["task"] in tasks]


def task_summaries(results: Sequence[TaskResult]) -> dict[str, dict[str, Any]]:
    return {
        task["task"]: {
            "version": task["version"],
            "shots": task["shots"],
            "items": len(task["items"]),
            "whole": task["whole"],
        }
        for task in results
    }


def interleave_tasks(flat: Sequence[Row], limit: int) -> list[Row]:
    """The first rows, alternating between tasks."""
    tasks: dict[str, list[Row]] = {}
    for row in flat:
        tasks.setdefault(row["task"], []).append(row)
    rounds = zip_longest(*tasks.values())
    return [row for rows in rounds for row in rows if row is not None][:limit]
