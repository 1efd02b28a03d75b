"""What lm-eval gives for a task, as plain data: its items with their values, and figures of the whole."""

import json
from collections.abc import Mapping
from typing import Any


def summed(task: Any) -> bool:
    """Whether a metric of the task is something else than the mean of its items' values."""
    from lm_eval.api.metrics import mean

    return any(how is not mean for how in task.aggregation().values())


def kept(result: Mapping[str, Any], task: Any, name: str) -> dict[str, Any]:
    own = task.config.task  # a file's task may be known by another name in lm-eval
    scores = result["results"][own]
    averaged = _averaged(task)
    items: dict[int, dict[str, Any]] = {}
    for sample in result["samples"][own]:
        item = items.setdefault(sample["doc_id"], _item(sample))
        for metric in sample["metrics"]:
            if averaged.get(metric, True):
                item["values"][_named(metric, sample["filter"])] = _number(sample[metric])
    return {
        "task": name,
        "version": str(result["versions"].get(own)),
        "shots": result["n-shot"].get(own, 0),
        "items": [items[number] for number in sorted(items)],
        "whole": _whole(scores, averaged),
    }


def _averaged(task: Any) -> dict[str, bool]:
    from lm_eval.api.metrics import mean

    return {metric: how is mean for metric, how in task.aggregation().items()}


def _named(metric: str, through: str) -> str:
    return metric if through == "none" else f"{metric}.{through}"


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _item(sample: Mapping[str, Any]) -> dict[str, Any]:
    """An item as it can be read: the prompt, and what the model wrote or held likeliest."""
    arguments, answers = sample["arguments"], sample["resps"]
    chosen, likelihoods = _chosen(arguments, answers)
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


def _chosen(arguments: Any, answers: Any) -> tuple[str, str | None]:
    firsts: list[Any] = [given[0] for given in answers]
    if isinstance(firsts[0], str):
        return firsts[0], None
    if not isinstance(firsts[0], tuple | list):
        return "", json.dumps(firsts)
    told = [(str(asked[1]), float(found[0])) for asked, found in zip(arguments, firsts, strict=True)]
    return max(told, key=lambda one: one[1])[0], json.dumps(told, ensure_ascii=False)


def _whole(scores: Mapping[str, Any], averaged: Mapping[str, bool]) -> dict[str, dict[str, Any]]:
    """Figures that are no means of items, such as a perplexity, with lm-eval's standard error."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in scores.items():
        metric, comma, through = key.partition(",")
        if comma and not metric.endswith("_stderr") and not averaged.get(metric, True):
            error = _number(scores.get(f"{metric}_stderr,{through}"))
            found[_named(metric, through)] = {"value": _number(value), "error": error}
    return found
