"""Whether an answer is mathematically the same as a reference."""

from typing import Any

from posttrain.spec.extension import Operand, Params, RewardOp

EXTENSION = RewardOp(
    name="math_equal",
    summary="True when two answers mean the same number or expression; open when that cannot be told.",
    operands={"of": Operand(type="text"), "to": Operand(type="text")},
    yields="boolean",
    stack=("sympy",),
)


def run(params: Params, operands: dict[str, list[Any]], count: int) -> list[bool | None]:
    from posttrain.runtime.grading import grade_many

    pairs = list(zip(operands["of"], operands["to"], strict=True))
    there = [(of, to) for of, to in pairs if of is not None and to is not None]
    verdicts = iter(grade_many(there))
    return [next(verdicts).equal if of is not None and to is not None else False for of, to in pairs]
