"""The score that reasoning-gym's own grader gives an answer to one of its tasks."""

from pathlib import Path

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.fallbacks import FALLBACK_DESCRIPTION, NumberFallback, fallback_value
from posttrain.runtime.rewards.engine.user_function_pool import CallResult, UserFunction, call_many
from posttrain.spec.column_types import Interval
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, Ranges, RewardOp

_GRADER = UserFunction(Path(__file__).with_name("reasoning_gym_grader.py"), "grade_answer")


class ReasoningGym(Params):
    timeout_seconds: float = field(default=5.0, gt=0, description="The longest that one answer may take.")
    on_error: NumberFallback = field(
        default="abstain", description=f"For a grader that fails: {FALLBACK_DESCRIPTION}"
    )
    on_timeout: NumberFallback = field(
        default="abstain", description=f"For one out of time: {FALLBACK_DESCRIPTION}"
    )


def value_range(params: ReasoningGym, operands: Ranges) -> Interval:
    whole = Interval(0.0, 1.0)
    for otherwise in (params.on_error, params.on_timeout):
        if not isinstance(otherwise, str):
            whole = whole.join(Interval(otherwise, otherwise))
    return whole


EXTENSION = RewardOp(
    name="reasoning_gym",
    summary="What reasoning-gym's grader gives an answer, from 0 to 1; 0 when there is none. It runs in a"
    " process of its own, since some of its graders evaluate what they are given.",
    params=ReasoningGym,
    operands={
        "of": Operand(type="text", description="The answer that is graded."),
        "task": Operand(
            type="any", description="The task that it answers, as the source `reasoning_gym` gives it."
        ),
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
    called = call_many(_GRADER, rows, params.timeout_seconds, processes=1)
    found = [_read_result(one, params) for one in called]
    return OpResult(values=[value for value, _ in found], reasons=[reason for _, reason in found])


def _read_result(called: CallResult, params: ReasoningGym) -> tuple[float | None, str | None]:
    if called.timed_out:
        reason = f"the grader took longer than {params.timeout_seconds:g} s"
        return fallback_value(params.on_timeout, reason), reason
    if called.error:
        return fallback_value(params.on_error, called.error), called.error
    return float(called.value), None
