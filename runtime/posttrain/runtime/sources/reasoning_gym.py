"""Source `reasoning_gym`: tasks that the package reasoning-gym generates from a seed."""

import json
from importlib import import_module
from typing import Annotated, Any

from pydantic import Field

from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext
from posttrain.spec.column_types import Columns
from posttrain.spec.declaration_fields import dump_declaration
from posttrain.spec.extension import Params, Source
from posttrain.spec.field_types import checked_by

# Tests found that these tasks differ for the same seed, raise an error, or grade answers wrongly.
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
        raise ValueError(
            f"the task `{task}` is not supported: reasoning-gym does not generate or grade it reliably"
        )


class ReasoningGym(Params):
    task: Annotated[str, Field(pattern=r"^[a-z0-9_]+$"), checked_by(_check_task)] = Field(
        description="The name of the task in reasoning-gym, such as chain_sum or sudoku.",
    )
    count: int = Field(default=1000, ge=1, le=1_000_000, description="The number of rows to generate.")
    seed: int = Field(default=1, ge=0, description="The seed of the generator.")
    config: dict[str, Any] = Field(
        default={}, description="Settings of the task, such as max_terms. See its page in reasoning-gym."
    )


EXTENSION = Source(
    name="reasoning_gym",
    summary="Generate tasks of reasoning-gym: `prompt`, `answer`, and `task` for the package's own grader.",
    params=ReasoningGym,
    columns=lambda params: _COLUMNS,
    rows=lambda params: params.count,
    stack=("reasoning-gym", "duckdb"),
)


def run(params: ReasoningGym, context: StepContext, connection: Any) -> None:
    """Create the table `source`."""
    from posttrain.runtime.sources.python_rows import load_python_rows

    tasks = create_tasks(params.task, params.count, params.seed, params.config)
    load_python_rows(
        connection, [_row(tasks[place], place, params) for place in range(params.count)], _COLUMNS
    )


def _row(task: dict[str, Any], place: int, params: ReasoningGym) -> dict[str, Any]:
    # A task with many correct answers may have no reference answer.
    answer = task["answer"] if isinstance(task["answer"], str) else None
    return {
        "prompt": task["question"],
        "answer": answer,
        "task": {**dump_declaration(params), "place": place},
    }


def create_tasks(task: str, count: int, seed: int, config: dict[str, Any]) -> Any:
    """The dataset object of reasoning-gym. Each task in it depends only on the seed and its index."""
    try:
        package: Any = import_module("reasoning_gym")
    except ImportError:
        advice = "install it: pip install 'posttrain[reasoning-gym]'"
        raise StepError("the package reasoning-gym is not installed", advice) from None
    try:
        return package.create_dataset(task, size=count, seed=seed, **config)
    except (ValueError, TypeError, AssertionError) as error:
        message = f"reasoning-gym cannot generate `{task}` with {json.dumps(config)}: {error}"
        raise StepError(message, "check `task` and `config`") from None
