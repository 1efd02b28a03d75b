"""Compares a number with bounds."""

from collections.abc import Callable, Mapping, Sequence

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.kleene_logic import Truth, kleene_all
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, Remark, RewardOp

_COMPARATORS: Mapping[str, Callable[[float, float], bool]] = {
    "at_least": lambda of, bound: of >= bound,
    "above": lambda of, bound: of > bound,
    "at_most": lambda of, bound: of <= bound,
    "below": lambda of, bound: of < bound,
    "equal": lambda of, bound: of == bound,
}
_DESCRIPTIONS = {
    "at_least": "Require `of` >= this number.",
    "above": "Require `of` > this number.",
    "at_most": "Require `of` <= this number.",
    "below": "Require `of` < this number.",
    "equal": "Require `of` == this number, without tolerance.",
}


def _comparison_range(name: str, of: Interval, bound: Interval) -> Interval:
    """The possible truth values of a comparison: 0 is false, 1 is true."""
    holds = _COMPARATORS[name]
    match name:
        case "at_least" | "above":
            sure, possible = holds(of.low, bound.high), holds(of.high, bound.low)
        case "at_most" | "below":
            sure, possible = holds(of.high, bound.low), holds(of.low, bound.high)
        case _:
            sure = of.constant and bound.constant and of.low == bound.low
            possible = of.low <= bound.high and bound.low <= of.high
    return Interval(float(sure), float(possible))


def value_range(params: object, operands: Ranges) -> Interval:
    (of,) = operands["of"]
    truths = [_comparison_range(name, of, operands[name][0]) for name in _COMPARATORS if name in operands]
    return Interval(min(truth.low for truth in truths), min(truth.high for truth in truths))


def remarks(params: object, operands: Ranges) -> Sequence[Remark]:
    if any(name in operands for name in _COMPARATORS):
        return ()
    message = "`compare` needs at least one of " + ", ".join(f"`{name}`" for name in _COMPARATORS)
    return (Remark(kind="refused", message=message),)


EXTENSION = RewardOp(
    name="compare",
    summary="True if a number satisfies all given comparisons. Abstains if the result depends on a number"
    " that abstains.",
    operands={
        "of": Operand(type="number", description="The number to compare."),
        **{
            name: Operand(type="number", required=False, description=_DESCRIPTIONS[name])
            for name in _COMPARATORS
        },
    },
    yields="boolean",
    range=value_range,
    remarks=remarks,
)


def run(params: object, operands: Operands, batch: Batch) -> list[Truth]:
    bounds = [name for name in _COMPARATORS if name in operands]
    truths = [_compare_column(name, operands) for name in bounds]
    return [kleene_all(row) for row in zip(*truths, strict=True)]


def _compare_column(name: str, operands: Operands) -> list[Truth]:
    holds = _COMPARATORS[name]
    pairs = zip(operands["of"], operands[name], strict=True)
    return [None if of is None or bound is None else holds(of, bound) for of, bound in pairs]
