"""How often a string occurs in a text."""

import math

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.column_types import Interval
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, Ranges, RewardOp


class Count(Params):
    part: str = field(min_length=1, description="What is counted; occurrences do not overlap.")


def value_range(params: Count, operands: Ranges) -> Interval:
    return Interval(0.0, math.inf)


EXTENSION = RewardOp(
    name="count",
    summary="How often a string occurs in the text; it abstains when there is no text.",
    params=Count,
    operands={"of": Operand(type="text", description="The text in which the string is counted.")},
    yields="integer",
    range=value_range,
)


def run(params: Count, operands: Operands, batch: Batch) -> list[int | None]:
    return [None if text is None else text.count(params.part) for text in operands["of"]]
