"""Checks stages against the number of rows of their data, as soon as it is known."""

from collections.abc import Iterator, Mapping
from typing import Any

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.plan_params import read_extension_params, read_step_params
from posttrain.runtime.preflight.finding import Finding, error
from posttrain.spec.extension import Method
from posttrain.spec.plan import Step, StepInput
from posttrain.spec.step_params.generation_params import GenerationParams
from posttrain.spec.step_params.train_params import HELD_OUT_ROLE, TrainStepParams

# By step: the facts of its product, among them the number of rows of each part as `rows.PART`.
Facts = Mapping[str, Mapping[str, Any]]
_ROWS = "rows."


def data_inputs(step: Step) -> dict[str, StepInput]:
    """The inputs whose rows a stage reads: its data, that of its evaluations, and few-shot examples."""
    roles = {"data", "few_shot", HELD_OUT_ROLE}
    # The role of a model can be `model:STAGE.OUTPUT`.
    return {
        role: given
        for role, given in step.inputs.items()
        if ":" not in role and role.rpartition(".")[2] in roles
    }


def check_schedule(step: Step, facts: Facts) -> Iterator[Finding]:
    """The findings about the data whose rows are counted. Other data is checked later."""
    counts: dict[str, int] = {}
    for role, given in data_inputs(step).items():
        count = count_rows(given, facts)
        if count is not None:
            counts[role] = count
    for role, count in counts.items():
        if count == 0:
            yield error(
                "schedule",
                step,
                f"`{step.id}` reads {_data_name(step.inputs[role])}, which has no rows",
                "check the source and the steps of the dataset: one of them may drop every row",
                declaration=role,
            )
    params = read_step_params(step)
    if isinstance(params, TrainStepParams) and counts.get("data"):
        yield from _check_training(step, params, counts["data"])
    if isinstance(params, GenerationParams) and params.few_shot is not None and counts.get("few_shot"):
        yield from _check_few_shot(step, params.few_shot.num_fewshot, counts["few_shot"])


def count_rows(given: StepInput, facts: Facts) -> int | None:
    """The rows of an input; None if they are not counted yet."""
    known = facts.get(given.step)
    if known is None:
        return None
    if given.output is not None:
        return known.get(f"{given.output}.rows")
    if given.part is not None:
        return known.get(f"{_ROWS}{given.part}", 0) if _row_counts(known) else None
    return sum(_row_counts(known)) if _row_counts(known) else None


def _row_counts(facts: Mapping[str, Any]) -> list[int]:
    return [count for name, count in facts.items() if name.startswith(_ROWS)]


def _check_training(step: Step, params: TrainStepParams, rows: int) -> Iterator[Finding]:
    method = CATALOG.find("method", params.method)
    assert isinstance(method, Method), "a training stage names a method"
    try:
        method.schedule(read_extension_params(method.params, params.params), rows)
    except ValueError as problem:
        yield error(
            "schedule",
            step,
            f"`{step.id}` reads {_data_name(step.inputs['data'])}: {problem}",
            "change the params of the stage, or add rows to the dataset",
            declaration="params",
        )


def _check_few_shot(step: Step, wanted: int, rows: int) -> Iterator[Finding]:
    if rows < wanted:
        yield error(
            "schedule",
            step,
            f"`{step.id}` takes {wanted} few-shot examples from"
            f" {_data_name(step.inputs['few_shot'])}, which has {rows} rows",
            "lower few_shot.num_fewshot, or use a larger dataset for the examples",
            declaration="few_shot",
        )


def _data_name(given: StepInput) -> str:
    return f"`{given.reference}`"
