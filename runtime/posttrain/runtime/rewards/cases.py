"""The number of the first condition that holds."""

from collections.abc import Iterator, Sequence

from posttrain.runtime.rewards.batch import Batch, Operands
from posttrain.runtime.rewards.logic import Truth, always, never
from posttrain.spec.extension import Operand, Ranges, Remark, RewardOp
from posttrain.spec.types import Interval


def _reached(operands: Ranges) -> Iterator[tuple[int, bool]]:
    """Each case with whether it can be the first that holds; the last is `otherwise`."""
    decided = False
    for place, when in enumerate(operands["of.when"]):
        yield place, not decided and not never(when)
        decided = decided or always(when)
    yield len(operands["of.when"]), not decided


def reach(params: object, operands: Ranges) -> Interval:
    values = [*operands["of.then"], *operands["otherwise"]]
    possible = [values[place] for place, reached in _reached(operands) if reached]
    whole = possible[0]
    for value in possible[1:]:
        whole = whole.join(value)
    return whole


def remarks(params: object, operands: Ranges) -> Sequence[Remark]:
    found: list[Remark] = []
    for place, reached in _reached(operands):
        if not reached:
            last = place == len(operands["of.when"])
            at = ("otherwise",) if last else ("of", place)
            message = "a case before it always holds" if last or not never(operands["of.when"][place]) else ""
            found.append(Remark(kind="unreachable", message=message or "this never holds", at=at))
    return found


EXTENSION = RewardOp(
    name="cases",
    summary="`then` of the first case whose condition holds, else `otherwise`; it abstains when it meets an"
    " open condition first.",
    operands={
        "of": Operand(
            fields={
                "when": Operand(type="boolean", description="The condition of this case."),
                "then": Operand(type="number", description="The number that this case gives."),
            },
            description="The cases, tried in their order.",
        ),
        "otherwise": Operand(type="number", description="The number where no case holds."),
    },
    yields="number",
    range=reach,
    remarks=remarks,
)


def run(params: object, operands: Operands, batch: Batch) -> list[float | None]:
    conditions = zip(*operands["of.when"], strict=True)
    values = zip(*operands["of.then"], strict=True)
    rows = zip(conditions, values, operands["otherwise"], strict=True)
    return [_first(whens, thens, otherwise) for whens, thens, otherwise in rows]


def _first(whens: Sequence[Truth], thens: Sequence[float | None], otherwise: float | None) -> float | None:
    for when, then in zip(whens, thens, strict=True):
        if when is None:
            return None
        if when:
            return then
    return otherwise
