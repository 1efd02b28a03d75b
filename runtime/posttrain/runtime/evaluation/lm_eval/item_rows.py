"""Rows and metrics of answered tasks, in the form that evals have."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from posttrain.spec.keys import digest

Row = dict[str, Any]
TaskResult = Mapping[str, Any]


def item_rows(results: Sequence[TaskResult], groups: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """A row an item, over all tasks; a metric of another task has no value."""
    nodes = _metric_nodes(results, groups)
    flat: list[Row] = []
    for task in results:
        within = [group for group, summary in groups.items() if task["task"] in summary["tasks"]]
        for item in task["items"]:
            values = {f"{task['task']}.{metric}": value for metric, value in item["values"].items()}
            for group in within:
                for metric in groups[group]["metrics"]:
                    if metric in item["values"]:
                        values[f"{group}.{metric}"] = item["values"][metric]
            recorded = {key: item[key] for key in ("doc", "prompt", "completion", "target", "likelihoods")}
            given = {f"node:{node}": values.get(node) for node in nodes}
            flat.append(
                {"item": _item_number(task["task"], item["doc"]), "task": task["task"], **recorded, **given}
            )
    return flat


def _item_number(task: str, place: int) -> int:
    """An item's number: the same in every stage that puts the task, whatever else it puts."""
    return int(digest(task)[:8], 16) << 24 | place


def _metric_nodes(results: Sequence[TaskResult], groups: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The metrics of all tasks, and of the groups whose members have them."""
    own = {task["task"]: _task_metrics(task) for task in results}
    found = [f"{task}.{metric}" for task, metrics in own.items() for metric in metrics]
    for group, summary in groups.items():
        held = {metric for task in summary["tasks"] for metric in own.get(task, ())}
        found += [f"{group}.{metric}" for metric in summary["metrics"] if metric in held]
    return found


def _task_metrics(task: TaskResult) -> list[str]:
    return list(dict.fromkeys(metric for item in task["items"] for metric in item["values"]))


def metric_definitions(results: Sequence[TaskResult], params: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Every metric by its name: a rate where the compiler knows it for one, else a mean."""
    known = params["metrics"]
    return {
        node: {"kind": known.get(node, {}).get("kind", "mean"), "node": node}
        for node in _metric_nodes(results, params["groups"])
    }


def rows_with_metric(flat: Sequence[Row], node: str) -> list[Row]:
    """The rows of the tasks that a metric belongs to: others are not unscored, they were never asked."""
    asked = {row["task"] for row in flat if row[f"node:{node}"] is not None}
    return [row for row in flat if row["task"] in asked]


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


def interleave_tasks(flat: Sequence[Row], most: int) -> list[Row]:
    """The first rows of every task in turn."""
    tasks: dict[str, list[Row]] = {}
    for row in flat:
        tasks.setdefault(row["task"], []).append(row)
    turns = zip_longest(*tasks.values())
    return [row for turn in turns for row in turn if row is not None][:most]
