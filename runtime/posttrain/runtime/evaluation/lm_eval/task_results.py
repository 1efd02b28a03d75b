"""Converts lm-eval's results of a task to plain data: items with metric values, and aggregate metrics."""

import json
from collections.abc import Mapping
from typing import Any


def has_aggregate_metric(task: Any) -> bool:
    """Whether a task has a metric that is not the mean of its items' values."""
    from lm_eval.api.metrics import mean

    return any(aggregation is not mean for aggregation in task.aggregation().values())


def task_result(result: Mapping[str, Any], task: Any, name: str) -> dict[str, Any]:
    lm_eval_name = task.config.task  # a task file may define another name
    scores = result["results"][lm_eval_name]
    averaged = _is_mean_of_items(task)
    items: dict[int, dict[str, Any]] = {}
    for sample in result["samples"][lm_eval_name]:
        item = items.setdefault(sample["doc_id"], _item_record(sample))
        for metric in sample["metrics"]:
            if averaged.get(metric, True):
                item["values"][_metric_name(metric, sample["filter"])] = _to_float(sample[metric])
    return {
        "task": name,
        "version": str(result["versions"].get(lm_eval_name)),
        "shots": result["n-shot"].get(lm_eval_name, 0),
        "items": [items[number] for number in sorted(items)],
        "whole": _aggregate_metrics(scores, averaged),
    }


def _is_mean_of_items(task: Any) -> dict[str, bool]:
    from lm_eval.api.metrics import mean

    return {metric: aggregation is mean for metric, aggregation in task.aggregation().items()}


def _metric_name(metric: str, filter_name: str) -> str:
    return metric if filter_name == "none" else f"{metric}.{filter_name}"


def _to_float(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _item_record(sample: Mapping[str, Any]) -> dict[str, Any]:
    """An item with its prompt, and the answer that the model generated or ranked highest."""
    arguments, answers = sample["arguments"], sample["resps"]
    chosen, likelihoods = _chosen_answer(arguments, answers)
    return {
        "doc": sample["doc_id"],
        "prompt": str(arguments[0][0]),
        "completion": chosen,
        "target": sample["target"]
        if isinstance(sample["target"], str)
        else json.dumps(sample["target"], default=str),
        "likelihoods": likelihoods,
        "values": {},
    }


def _chosen_answer(arguments: Any, answers: Any) -> tuple[str, str | None]:
    firsts: list[Any] = [answer[0] for answer in answers]
    if isinstance(firsts[0], str):
        return firsts[0], None
    if not isinstance(firsts[0], tuple | list):
        return "", json.dumps(firsts)
    choices = [(str(argument[1]), float(first[0])) for argument, first in zip(arguments, firsts, strict=True)]
    return max(choices, key=lambda choice: choice[1])[0], json.dumps(choices, ensure_ascii=False)


def _aggregate_metrics(scores: Mapping[str, Any], averaged: Mapping[str, bool]) -> dict[str, dict[str, Any]]:
    """Metrics that are not means of items, such as perplexity, with lm-eval's standard error."""
    aggregates: dict[str, dict[str, Any]] = {}
    for key, value in scores.items():
        metric, comma, filter_name = key.partition(",")
        if comma and not metric.endswith("_stderr") and not averaged.get(metric, True):
            error = _to_float(scores.get(f"{metric}_stderr,{filter_name}"))
            aggregates[_metric_name(metric, filter_name)] = {"value": _to_float(value), "error": error}
    return aggregates
