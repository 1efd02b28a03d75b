"""Whether an answer is mathematically equal to a reference."""

from typing import Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.fallbacks import FALLBACK_DESCRIPTION, BooleanFallback, fallback_value
from posttrain.spec.extension import Operand, Params, RewardOp


class MathEqual(Params):
    percent: Literal["either", "fraction", "number"] = Field(
        default="either",
        description="How 50% compares with a number: `either` accepts 50 and 0.5, `fraction` only 0.5,"
        " `number` only 50.",
    )
    units: Literal["optional", "ignore", "require"] = Field(
        default="optional",
        description="Comparison of units: `optional` compares them if both answers have one, `ignore` never"
        " does, `require` always does.",
    )
    order: Literal["auto", "strict", "any"] = Field(
        default="auto",
        description="Whether order matters: `auto` in tuples but not in lists and sets, `strict` in lists"
        " too, `any` nowhere.",
    )
    rounding: Literal["long", "reference", "off"] = Field(
        default="long",
        description="The decimals that equal any value that rounds to them: `long` those with many digits,"
        " `reference` every decimal in the reference, `off` none.",
    )
    rel_tol: float = Field(default=0.0, ge=0, description="Relative tolerance for numbers.")
    abs_tol: float = Field(default=0.0, ge=0, description="Absolute tolerance for numbers.")
    simplified: bool = Field(
        default=False, description="Require that the answer is fully simplified: 1/2, not 2/4."
    )
    ignore_case: bool = Field(default=True, description="Ignore case in text answers.")
    choices: bool = Field(default=True, description="Treat B, (B) and (B) 12 as the same choice.")
    max_cpu_seconds: float = Field(
        default=10.0,
        gt=0,
        le=600,
        description="Limit of CPU time for one comparison, in seconds. An answer beyond it is wrong, as is"
        " one beyond the limits of size and steps.",
    )
    on_undecided: BooleanFallback = Field(
        default="abstain",
        description="For a comparison that cannot be decided because of the reference or a failure of the"
        f" machine: {FALLBACK_DESCRIPTION}",
    )


EXTENSION = RewardOp(
    name="math_equal",
    summary="True if an answer is mathematically equal to a reference: the same number, expression, set or"
    " choice. Abstains if the reference is absent.",
    params=MathEqual,
    operands={
        "of": Operand(type="text", description="The answer to grade."),
        "to": Operand(type="text", description="The reference answer."),
    },
    yields="boolean",
    stack=("sympy",),
    slow=True,
)
_NO_ANSWER = "there is no answer"
_NO_REFERENCE = "there is no reference answer"


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
    complete = [(of, to) for of, to in pairs if of is not None and to is not None]
    verdicts = iter(grade_many(complete, options, params.max_cpu_seconds))
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
