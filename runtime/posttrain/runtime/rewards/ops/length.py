"""The length of a text."""

import math
from typing import Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Params, Ranges, RewardOp


class Length(Params):
    unit: Literal["characters", "words", "lines"] = Field(
        default="characters", description="The unit to count. Words are separated by white space."
    )


def value_range(params: Length, operands: Ranges) -> Interval:
    return Interval(0.0, math.inf)


EXTENSION = RewardOp(
    name="length",
    summary="The number of characters, words or lines of a text. Abstains if the text is absent.",
    params=Length,
    operands={"of": Operand(type="text", description="The text to measure.")},
    yields="integer",
    range=value_range,
)


def run(params: Length, operands: Operands, batch: Batch) -> list[int | None]:
    return [None if text is None else measure_length(text, params.unit) for text in operands["of"]]


def measure_length(text: str, unit: str) -> int:
    match unit:
        case "words":
            return len(text.split())
        case "lines":
            return len(text.splitlines())
        case _:
            return len(text)
