"""The value of the first case whose condition holds."""

from collections.abc import Iterator, Sequence

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.kleene_logic import Truth, is_always_true, is_never_true
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, Remark, RewardOp


def _reachable_cases(operands: Ranges) -> Iterator[tuple[int, bool]]:
    """Yield the index of each case and whether it can be selected. The last one is `otherwise`."""
    decided = False
    for place, when in enumerate(operands["of.when"]):
        yield place, not decided and not is_never_true(when)
        decided = decided or is_always_true(when)
    yield len(operands["of.when"]), not decided


def value_range(params: object, operands: Ranges) -> Interval:
    values = [*operands["of.then"], *operands["otherwise"]]
    possible = [values[place] for place, reached in _reachable_cases(operands) if reached]
    whole = possible[0]
    for value in possible[1:]:
        whole = whole.join(value)
    return whole


def remarks(params: object, operands: Ranges) -> Sequence[Remark]:
    unreachable: list[Remark] = []
    for place, reached in _reachable_cases(operands):
        if not reached:
            last = place == len(operands["of.when"])
            at = ("otherwise",) if last else ("of", place)
            message = (
                "an earlier case always holds"
                if last or not is_never_true(operands["of.when"][place])
                else ""
            )
            message = message or "this condition never holds"
            unreachable.append(Remark(kind="unreachable", message=message, at=at))
    return unreachable


EXTENSION = RewardOp(
    name="cases",
    summary="The value `then` of the first case whose condition holds, or `otherwise` if none holds. Abstains"
    " if a condition abstains before one holds.",
    operands={
        "of": Operand(
            fields={
                "when": Operand(type="boolean", description="The condition of this case."),
                "then": Operand(type="number", description="The value of this case."),
            },
            description="The cases, evaluated in order.",
        ),
        "otherwise": Operand(type="number", description="The value if no case holds."),
    },
    yields="number",
    range=value_range,
    remarks=remarks,
)


def run(params: object, operands: Operands, batch: Batch) -> list[float | None]:
    conditions = zip(*operands["of.when"], strict=True)
    values = zip(*operands["of.then"], strict=True)
    rows = zip(conditions, values, operands["otherwise"], strict=True)
    return [_first_match(whens, thens, otherwise) for whens, thens, otherwise in rows]


def _first_match(
    whens: Sequence[Truth], thens: Sequence[float | None], otherwise: float | None
) -> float | None:
    for when, then in zip(whens, thens, strict=True):
        if when is None:
            return None
        if when:
            return then
    return otherwise
