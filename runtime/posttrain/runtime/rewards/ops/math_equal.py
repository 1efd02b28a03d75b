"""Whether an answer is mathematically the same as a reference."""

from typing import Literal

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.fallbacks import FALLBACK_DESCRIPTION, BooleanFallback, fallback_value
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, RewardOp


class MathEqual(Params):
    percent: Literal["either", "fraction", "number"] = field(
        default="either", description="What 50% may be: 50 and 0.5, only 0.5, or only 50."
    )
    units: Literal["optional", "ignore", "require"] = field(
        default="optional", description="Whether units are compared: where both have one, never, or always."
    )
    order: Literal["auto", "strict", "any"] = field(
        default="auto",
        description="Whether order counts: in tuples but not in lists and sets, in lists too, or nowhere.",
    )
    rounding: Literal["long", "reference", "off"] = field(
        default="long",
        description="Which decimals may stand for a value that rounds to them: long ones, any in the"
        " reference, or none.",
    )
    rel_tol: float = field(default=0.0, ge=0, description="How far off a number may be, by its size.")
    abs_tol: float = field(default=0.0, ge=0, description="How far off a number may be.")
    simplified: bool = field(
        default=False, description="Whether nothing may be left to work out in the answer."
    )
    ignore_case: bool = field(
        default=True, description="Take capitals for small letters in answers of words."
    )
    choices: bool = field(default=True, description="Whether B, (B) and (B) 12 may name the same choice.")
    timeout_seconds: float = field(
        default=3.0, gt=0, le=600, description="The longest that one pair may take."
    )
    on_undecided: BooleanFallback = field(
        default="abstain", description=f"For a pair that the grader cannot decide: {FALLBACK_DESCRIPTION}"
    )


EXTENSION = RewardOp(
    name="math_equal",
    summary="True when two answers mean the same number or expression; it abstains when that cannot be told.",
    params=MathEqual,
    operands={
        "of": Operand(type="text", description="The answer that is graded."),
        "to": Operand(type="text", description="The right answer, which it is compared with."),
    },
    yields="boolean",
    stack=("sympy",),
    slow=True,
)
_NO_ANSWER = "there is no answer"
_NO_REFERENCE = "there is nothing to compare with"


def run(params: MathEqual, operands: Operands, batch: Batch) -> OpResult:
    from posttrain.grading.grader import grade_many
    from posttrain.grading.options import Options

    options = Options(
        percent=params.percent,
        units=params.units,
        order=params.order,
        rounding=params.rounding,
        rel_tol=params.rel_tol,
        abs_tol=params.abs_tol,
        require_simplified=params.simplified,
        case_sensitive=not params.ignore_case,
        choices=params.choices,
    )
    pairs = list(zip(operands["of"], operands["to"], strict=True))
    there = [(of, to) for of, to in pairs if of is not None and to is not None]
    verdicts = iter(grade_many(there, options, params.timeout_seconds))
    values: list[bool | float | None] = []
    reasons: list[str] = []
    for of, to in pairs:
        if of is None or to is None:
            values.append(None if to is None else False)
            reasons.append(_NO_REFERENCE if to is None else _NO_ANSWER)
            continue
        verdict = next(verdicts)
        undecided = verdict.equal is None
        values.append(fallback_value(params.on_undecided, verdict.reason) if undecided else verdict.equal)
        reasons.append(verdict.reason)
    return OpResult(values=values, reasons=reasons)
