"""Linear interpolation between two values while another number grows."""

from collections.abc import Sequence

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Params, Ranges, Remark, RewardOp


class Ramp(Params):
    start: float = Field(description="Start of the ramp: up to this number the value is `before`.")
    end: float = Field(description="End of the ramp: from this number on the value is `after`.")
    before: float = Field(default=0.0, description="The value up to `start`.")
    after: float = Field(default=1.0, description="The value from `end` on.")


def ramp_value(value: float, params: Ramp) -> float:
    """The value for a number, which may be infinite."""
    if value <= params.start:
        return params.before
    if value >= params.end:
        return params.after
    share = (value - params.start) / (params.end - params.start)
    return params.before + (params.after - params.before) * share


def value_range(params: Ramp, operands: Ranges) -> Interval:
    (of,) = operands["of"]
    ends = ramp_value(of.low, params), ramp_value(of.high, params)
    return Interval(min(ends), max(ends))


def remarks(params: Ramp, operands: Ranges) -> Sequence[Remark]:
    if params.start >= params.end:
        return (Remark(kind="refused", message="`start` must be less than `end`", at=("start",)),)
    return ()


EXTENSION = RewardOp(
    name="ramp",
    summary="Linear interpolation from `before` to `after` while a number grows from `start` to `end`. A soft"
    " length penalty: `{ramp: {of: {tokens: {}}, start: 768, end: 1024, after: -1}}`.",
    params=Ramp,
    operands={
        "of": Operand(type="number", description="The number that determines the position on the ramp.")
    },
    yields="number",
    range=value_range,
    remarks=remarks,
)


def run(params: Ramp, operands: Operands, batch: Batch) -> list[float | None]:
    return [None if value is None else ramp_value(value, params) for value in operands["of"]]
