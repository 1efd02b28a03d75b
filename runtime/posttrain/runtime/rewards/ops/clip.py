"""Limits a number to a range."""

from collections.abc import Sequence

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Params, Ranges, Remark, RewardOp


class Clip(Params):
    low: float | None = Field(default=None, description="The lower bound. None by default: no lower bound.")
    high: float | None = Field(default=None, description="The upper bound. None by default: no upper bound.")


def clip_value(value: float, params: Clip) -> float:
    if params.low is not None and value < params.low:
        return params.low
    return params.high if params.high is not None and value > params.high else float(value)


def value_range(params: Clip, operands: Ranges) -> Interval:
    (of,) = operands["of"]
    return Interval(clip_value(of.low, params), clip_value(of.high, params))


def remarks(params: Clip, operands: Ranges) -> Sequence[Remark]:
    if params.low is None and params.high is None:
        return (Remark(kind="refused", message="`clip` needs `low`, `high` or both"),)
    if params.low is not None and params.high is not None and params.low > params.high:
        return (Remark(kind="refused", message="`low` is greater than `high`", at=("low",)),)
    return ()


EXTENSION = RewardOp(
    name="clip",
    summary="A number limited to the range from `low` to `high`. A value outside becomes the nearest bound.",
    params=Clip,
    operands={"of": Operand(type="number", description="The number to limit.")},
    yields="number",
    range=value_range,
    remarks=remarks,
)


def run(params: Clip, operands: Operands, batch: Batch) -> list[float | None]:
    return [None if value is None else clip_value(value, params) for value in operands["of"]]
