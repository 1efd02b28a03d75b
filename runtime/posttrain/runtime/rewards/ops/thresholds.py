"""A step function: the value of the first threshold that a number reaches."""

from collections.abc import Iterator, Sequence

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, Remark, RewardOp

_NEVER_REACHED = "the number never reaches this threshold"
_SHADOWED = "an earlier step has the same or a lower threshold"
_ALWAYS_REACHED = "an earlier step is always reached"


def _unreachable_reasons(operands: Ranges) -> Iterator[tuple[int, str]]:
    """Yield the index of each step and why it is unreachable, or "". The last one is `otherwise`."""
    (of,) = operands["of"]
    decided = False
    lowest: float | None = None
    for place, bound in enumerate(operands["steps.at_least"]):
        if decided:
            yield place, _ALWAYS_REACHED
        elif of.high < bound.low:
            yield place, _NEVER_REACHED
        else:
            yield place, _SHADOWED if lowest is not None and lowest <= bound.low else ""
        decided = decided or of.low >= bound.high
        lowest = bound.high if lowest is None else min(lowest, bound.high)
    yield len(operands["steps.at_least"]), _ALWAYS_REACHED if decided else ""


def value_range(params: object, operands: Ranges) -> Interval:
    values = [*operands["steps.then"], *operands["otherwise"]]
    possible = [values[place] for place, obstacle in _unreachable_reasons(operands) if not obstacle]
    whole = possible[0]
    for value in possible[1:]:
        whole = whole.join(value)
    return whole


def remarks(params: object, operands: Ranges) -> Sequence[Remark]:
    last = len(operands["steps.at_least"])
    return [
        Remark(kind="unreachable", message=obstacle, at=("otherwise",) if place == last else ("steps", place))
        for place, obstacle in _unreachable_reasons(operands)
        if obstacle
    ]


EXTENSION = RewardOp(
    name="thresholds",
    summary="A step function: the value `then` of the first step whose `at_least` the number reaches, or"
    " `otherwise` if it reaches none. Abstains if the number does.",
    operands={
        "of": Operand(type="number", description="The number to compare with the steps."),
        "steps": Operand(
            fields={
                "at_least": Operand(
                    type="number", description="The threshold: the step applies from this number on."
                ),
                "then": Operand(type="number", description="The value of this step."),
            },
            description="The steps, evaluated in order. Put the highest threshold first.",
        ),
        "otherwise": Operand(type="number", description="The value if no step is reached."),
    },
    yields="number",
    range=value_range,
    remarks=remarks,
)


def run(params: object, operands: Operands, batch: Batch) -> list[float | None]:
    bounds = zip(*operands["steps.at_least"], strict=True)
    values = zip(*operands["steps.then"], strict=True)
    rows = zip(operands["of"], bounds, values, operands["otherwise"], strict=True)
    return [_first_reached(of, levels, thens, otherwise) for of, levels, thens, otherwise in rows]


def _first_reached(
    of: float | None, levels: Sequence[float | None], thens: Sequence[float | None], otherwise: float | None
) -> float | None:
    if of is None:
        return None
    for level, then in zip(levels, thens, strict=True):
        if level is None:
            return None
        if of >= level:
            return then
    return otherwise
