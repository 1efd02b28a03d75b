"""Grades answers to tasks of reasoning-gym. Loaded only in a process of its own: its graders may hang,
and some of them evaluate what they are given."""

import json
from functools import cache
from importlib import import_module
from typing import Any

from posttrain.runtime.sources.reasoning_gym import create_tasks

import_module("reasoning_gym")  # it takes seconds, which no answer's own time must pay for


def grade_answer(answer: str | None, task: str) -> float:
    if answer is None:
        return 0.0
    given: dict[str, Any] = json.loads(task)
    made = _cached_tasks(given["task"], given["count"], given["seed"], json.dumps(given["config"]))
    return min(1.0, max(0.0, float(made.score_answer(answer=answer, entry=made[given["place"]]))))


@cache
def _cached_tasks(task: str, count: int, seed: int, config: str) -> Any:
    return create_tasks(task, count, seed, json.loads(config))
