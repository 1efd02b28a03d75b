"""The sum of numbers. Abstains if one of them does."""

from collections.abc import Sequence

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.numeric_reduction import (
    check_dominant_term,
    combine_rows,
    sequential_sum,
)
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, Remark, RewardOp


def value_range(params: object, operands: Ranges) -> Interval:
    return Interval(
        sequential_sum([part.low for part in operands["of"]]),
        sequential_sum([part.high for part in operands["of"]]),
    )


def remarks(params: object, operands: Ranges) -> Sequence[Remark]:
    return check_dominant_term(operands["of"])


EXTENSION = RewardOp(
    name="sum",
    summary="The sum of several numbers. Abstains if one of them does.",
    operands={"of": Operand(type="number", many=True, description="The numbers to add.")},
    yields="number",
    range=value_range,
    remarks=remarks,
)


def run(params: object, operands: Operands, batch: Batch) -> list[float | None]:
    return combine_rows(sequential_sum, operands["of"])
