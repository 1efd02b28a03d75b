"""A number relative to the other completions of the same prompt."""

import math
from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import Field

from posttrain.runtime.errors import StepError
from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.ops.mean import bounded_mean
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Params, Ranges, RewardOp


class Normalize(Params):
    method: Literal["center", "zscore", "rank"] = Field(
        default="center",
        description="`center`: the difference to the group's mean. `zscore`: that difference in standard"
        " deviations. `rank`: the share of the other completions with a lower number; ties count half.",
    )


def value_range(params: Normalize, operands: Ranges) -> Interval:
    (of,) = operands["of"]
    match params.method:
        case "rank":
            return Interval(0.0, 1.0)
        case "center" if math.isfinite(of.low) and math.isfinite(of.high):
            return Interval(of.low - of.high, of.high - of.low)
        case _ if of.constant:
            return Interval(0.0, 0.0)
        case _:
            return Interval.unbounded()


EXTENSION = RewardOp(
    name="normalize",
    summary="A number relative to the other completions of the same prompt. Completions that abstain are left"
    " out of the group.",
    params=Normalize,
    operands={"of": Operand(type="number", description="The number to normalize.")},
    yields="number",
    range=value_range,
)


def run(params: Normalize, operands: Operands, batch: Batch) -> list[float | None]:
    if batch.groups is None:
        raise StepError(
            "`normalize` compares the completions of a prompt, but the rows have no prompts",
            "add a column `prompt` to the rows, or remove the op",
        )
    members: dict[int, list[int]] = {}
    for row, group in enumerate(batch.groups):
        if operands["of"][row] is not None:
            members.setdefault(group, []).append(row)
    values: list[float | None] = [None] * batch.count
    for rows in members.values():
        relative = _METHODS[params.method]([float(operands["of"][row]) for row in rows])
        for row, value in zip(rows, relative, strict=True):
            values[row] = value
    return values


def _center(values: Sequence[float]) -> list[float]:
    middle = bounded_mean(values)
    return [value - middle for value in values]


def _standardize(values: Sequence[float]) -> list[float]:
    distances = _center(values)
    deviation = math.sqrt(bounded_mean([distance * distance for distance in distances]))
    return [distance / deviation if deviation else 0.0 for distance in distances]


def _rank(values: Sequence[float]) -> list[float]:
    if len(values) == 1:
        return [0.5]
    ordered = sorted(values)
    first: dict[float, int] = {}
    for place, value in enumerate(ordered):
        first.setdefault(value, place)
    equal = {value: ordered.count(value) for value in first}
    return [(first[value] + (equal[value] - 1) / 2) / (len(values) - 1) for value in values]


_METHODS: dict[str, Callable[[Sequence[float]], list[float]]] = {
    "center": _center,
    "zscore": _standardize,
    "rank": _rank,
}
