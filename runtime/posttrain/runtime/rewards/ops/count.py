"""How often a string occurs in a text."""

import math

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Params, Ranges, RewardOp


class Count(Params):
    part: str = Field(min_length=1, description="The string to count. Occurrences do not overlap.")


def value_range(params: Count, operands: Ranges) -> Interval:
    return Interval(0.0, math.inf)


EXTENSION = RewardOp(
    name="count",
    summary="The number of times a string occurs in a text. Abstains if the text is absent.",
    params=Count,
    operands={"of": Operand(type="text", description="The text to search.")},
    yields="integer",
    range=value_range,
)


def run(params: Count, operands: Operands, batch: Batch) -> list[int | None]:
    return [None if text is None else text.count(params.part) for text in operands["of"]]
