"""What lm-eval gives for a task, as plain data: its items with their values, and figures of the whole."""

import json
from collections.abc import Mapping
from typing import Any


def has_aggregate_metric(task: Any) -> bool:
    """Whether a metric of the task is something else than the mean of its items' values."""
    from lm_eval.api.metrics import mean

    return any(how is not mean for how in task.aggregation().values())


def task_result(result: Mapping[str, Any], task: Any, name: str) -> dict[str, Any]:
    own = task.config.task  # a file's task may be known by another name in lm-eval
    scores = result["results"][own]
    averaged = _is_mean_of_items(task)
    items: dict[int, dict[str, Any]] = {}
    for sample in result["samples"][own]:
        item = items.setdefault(sample["doc_id"], _item_record(sample))
        for metric in sample["metrics"]:
            if averaged.get(metric, True):
                item["values"][_metric_name(metric, sample["filter"])] = _to_float(sample[metric])
    return {
        "task": name,
        "version": str(result["versions"].get(own)),
        "shots": result["n-shot"].get(own, 0),
        "items": [items[number] for number in sorted(items)],
        "whole": _aggregate_metrics(scores, averaged),
    }


def _is_mean_of_items(task: Any) -> dict[str, bool]:
    from lm_eval.api.metrics import mean

    return {metric: how is mean for metric, how in task.aggregation().items()}


def _metric_name(metric: str, through: str) -> str:
    return metric if through == "none" else f"{metric}.{through}"


def _to_float(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _item_record(sample: Mapping[str, Any]) -> dict[str, Any]:
    """An item as it can be read: the prompt, and what the model wrote or held likeliest."""
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
    firsts: list[Any] = [given[0] for given in answers]
    if isinstance(firsts[0], str):
        return firsts[0], None
    if not isinstance(firsts[0], tuple | list):
        return "", json.dumps(firsts)
    told = [(str(asked[1]), float(found[0])) for asked, found in zip(arguments, firsts, strict=True)]
    return max(told, key=lambda one: one[1])[0], json.dumps(told, ensure_ascii=False)


def _aggregate_metrics(scores: Mapping[str, Any], averaged: Mapping[str, bool]) -> dict[str, dict[str, Any]]:
    """Figures that are no means of items, such as a perplexity, with lm-eval's standard error."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in scores.items():
        metric, comma, through = key.partition(",")
        if comma and not metric.endswith("_stderr") and not averaged.get(metric, True):
            error = _to_float(scores.get(f"{metric}_stderr,{through}"))
            found[_metric_name(metric, through)] = {"value": _to_float(value), "error": error}
    return found
