"""Grades answers to reasoning-gym tasks. Loaded only in a separate process: graders may hang, and some of
them evaluate the answer as code."""

import json
from functools import cache
from importlib import import_module
from typing import Any

from posttrain.runtime.sources.reasoning_gym import create_tasks

import_module("reasoning_gym")  # takes seconds, which must not count against the timeout of an answer


def grade_answer(answer: str | None, task: str) -> float:
    if answer is None:
        return 0.0
    spec: dict[str, Any] = json.loads(task)
    tasks = _cached_tasks(spec["task"], spec["count"], spec["seed"], json.dumps(spec["config"]))
    return min(1.0, max(0.0, float(tasks.score_answer(answer=answer, entry=tasks[spec["place"]]))))


@cache
def _cached_tasks(task: str, count: int, seed: int, config: str) -> Any:
    return create_tasks(task, count, seed, json.loads(config))
