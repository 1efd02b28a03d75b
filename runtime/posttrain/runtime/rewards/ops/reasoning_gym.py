"""The score of an answer to a reasoning-gym task, by the task's own grader."""

from pathlib import Path

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.fallbacks import FALLBACK_DESCRIPTION, NumberFallback, fallback_value
from posttrain.runtime.rewards.engine.user_function_pool import CallResult, UserFunction, call_many
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Params, Ranges, RewardOp

_GRADER = UserFunction(Path(__file__).with_name("reasoning_gym_grader.py"), "grade_answer")


class ReasoningGym(Params):
    timeout_seconds: float = Field(default=5.0, gt=0, description="Time limit of one answer, in seconds.")
    on_error: NumberFallback = Field(
        default="abstain", description=f"For a grader that fails: {FALLBACK_DESCRIPTION}"
    )
    on_timeout: NumberFallback = Field(
        default="abstain", description=f"For an answer that exceeds `timeout_seconds`: {FALLBACK_DESCRIPTION}"
    )


def value_range(params: ReasoningGym, operands: Ranges) -> Interval:
    whole = Interval(0.0, 1.0)
    for otherwise in (params.on_error, params.on_timeout):
        if not isinstance(otherwise, str):
            whole = whole.join(Interval(otherwise, otherwise))
    return whole


EXTENSION = RewardOp(
    name="reasoning_gym",
    summary="The score of an answer by the grader of a reasoning-gym task, from 0 to 1; 0 if there is no"
    " answer. Graders run in a separate process, because some of them evaluate the answer as code.",
    params=ReasoningGym,
    operands={
        "of": Operand(type="text", description="The answer to grade."),
        "task": Operand(type="any", description="The task, from the column of the source `reasoning_gym`."),
    },
    yields="number",
    range=value_range,
    slow=True,
    stack=("reasoning-gym",),
)


def run(params: ReasoningGym, operands: Operands, batch: Batch) -> OpResult:
    rows = [
        {"answer": answer, "task": task}
        for answer, task in zip(operands["of"], operands["task"], strict=True)
    ]
    calls = call_many(_GRADER, rows, params.timeout_seconds, processes=1)
    results = [_read_result(call, params) for call in calls]
    return OpResult(values=[value for value, _ in results], reasons=[reason for _, reason in results])


def _read_result(call: CallResult, params: ReasoningGym) -> tuple[float | None, str | None]:
    if call.timed_out:
        reason = f"the grader took longer than {params.timeout_seconds:g} s"
        return fallback_value(params.on_timeout, reason), reason
    if call.error:
        return fallback_value(params.on_error, call.error), call.error
    return float(call.value), None
