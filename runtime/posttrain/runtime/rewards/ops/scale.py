"""A linear function of a number."""

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.numeric_reduction import scale_interval
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Params, Ranges, RewardOp


class Scale(Params):
    factor: float = Field(default=1.0, description="The multiplier.")
    offset: float = Field(default=0.0, description="The number added to the product.")


def value_range(params: Scale, operands: Ranges) -> Interval:
    (of,) = operands["of"]
    return scale_interval(of, params.factor).plus(Interval(params.offset, params.offset))


EXTENSION = RewardOp(
    name="scale",
    summary="A number multiplied by `factor`, plus `offset`.",
    params=Scale,
    operands={"of": Operand(type="number", description="The number to scale.")},
    yields="number",
    range=value_range,
)


def run(params: Scale, operands: Operands, batch: Batch) -> list[float | None]:
    return [None if value is None else value * params.factor + params.offset for value in operands["of"]]
