"""Tasks of the package reasoning-gym, made from a seed: question, answer, and what it takes to grade."""

import json
from importlib import import_module
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext
from posttrain.spec.column_types import Columns
from posttrain.spec.declaration_fields import dump_declaration, field
from posttrain.spec.extension import Params, Source

# Tried one by one: not the same from the same seed, raising, or graded wrongly.
_UNRELIABLE_TASKS = (
    "acre",
    "codeio",
    "composite",
    "game_of_life_halting",
    "prime_factorization",
    "propositional_logic",
    "spell_backward",
)
_COLUMNS: Columns = {"prompt": "text", "answer": "text", "task": "any"}


def _check_task(task: str) -> None:
    if task in _UNRELIABLE_TASKS:
        raise ValueError(f"`{task}` cannot be relied on: it is not repeatable, or graded wrongly")


class ReasoningGym(Params):
    task: str = field(
        pattern=r"^[a-z0-9_]+$",
        check=_check_task,
        description="The task, such as chain_sum or sudoku.",
    )
    count: int = field(default=1000, ge=1, le=1_000_000, description="How many are made.")
    seed: int = field(default=1, ge=0, description="Where they start.")
    config: dict[str, Any] = field(default={}, description="The task's own settings, such as max_terms.")


EXTENSION = Source(
    name="reasoning_gym",
    summary="Tasks of reasoning-gym: `prompt`, an `answer`, and the `task` by which its own grader scores.",
    params=ReasoningGym,
    columns=lambda params: _COLUMNS,
    rows=lambda params: params.count,
    stack=("reasoning-gym", "duckdb"),
)


def run(params: ReasoningGym, context: StepContext, connection: Any) -> None:
    """Make the table `source`."""
    from posttrain.runtime.sources.python_rows import load_python_rows

    made = create_tasks(params.task, params.count, params.seed, params.config)
    load_python_rows(
        connection, [_row(made[place], place, params) for place in range(params.count)], _COLUMNS
    )


def _row(made: dict[str, Any], place: int, params: ReasoningGym) -> dict[str, Any]:
    # A task that has many right answers may name none of them.
    answer = made["answer"] if isinstance(made["answer"], str) else None
    return {
        "prompt": made["question"],
        "answer": answer,
        "task": {**dump_declaration(params), "place": place},
    }


def create_tasks(task: str, count: int, seed: int, config: dict[str, Any]) -> Any:
    """The package's own data set; each task in it depends on the seed and its place alone."""
    try:
        package: Any = import_module("reasoning_gym")
    except ImportError:
        advice = "install it: pip install reasoning-gym"
        raise StepError("the package reasoning-gym is not installed", advice) from None
    try:
        return package.create_dataset(task, size=count, seed=seed, **config)
    except (ValueError, TypeError, AssertionError) as error:
        said = f"reasoning-gym does not make `{task}` with {json.dumps(config)}: {error}"
        raise StepError(said, "look at the task's name and its config") from None
