"""The similarity of two texts, by their longest common subsequence."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Params, Ranges, RewardOp


class Similarity(Params):
    unit: Literal["characters", "words"] = Field(default="characters", description="The unit of comparison.")
    max_length: int = Field(
        default=20_000,
        ge=1,
        le=100_000,
        description="The maximum length of a text, in units. Abstains if a text is longer.",
    )


def value_range(params: Similarity, operands: Ranges) -> Interval:
    return Interval(0.0, 1.0)


EXTENSION = RewardOp(
    name="similarity",
    summary="The similarity of two texts: twice the length of their longest common subsequence, divided by"
    " the sum of their lengths. 1 if they are equal, 0 if they share nothing. Abstains if either is absent.",
    params=Similarity,
    operands={
        "of": Operand(type="text", description="The text to compare."),
        "to": Operand(type="text", description="The reference text."),
    },
    yields="number",
    range=value_range,
)


def run(params: Similarity, operands: Operands, batch: Batch) -> OpResult:
    values: list[float | None] = []
    reasons: list[str | None] = []
    for of, to in zip(operands["of"], operands["to"], strict=True):
        value, reason = (None, None) if of is None or to is None else _bounded_similarity(of, to, params)
        values.append(value)
        reasons.append(reason)
    return OpResult(values=values, reasons=reasons if any(reasons) else ())


def _bounded_similarity(of: str, to: str, params: Similarity) -> tuple[float | None, str | None]:
    left, right = (text.split() if params.unit == "words" else text for text in (of, to))
    if max(len(left), len(right)) > params.max_length:
        return None, f"longer than {params.max_length} {params.unit}"
    return similarity(left, right), None


def similarity(left: Sequence[str], right: Sequence[str]) -> float:
    total = len(left) + len(right)
    return 2 * lcs_length(left, right) / total if total else 1.0


def lcs_length(left: Sequence[str], right: Sequence[str]) -> int:
    """The length of the longest common subsequence, with each row of the table as the bits of an integer.

    A bit of `row` is 0 where the value of the table's column grows (Hyyrö 2004, after Allison and Dix 1986).
    """
    places: dict[str, int] = {}
    for place, unit in enumerate(left):
        places[unit] = places.get(unit, 0) | 1 << place
    full = (1 << len(left)) - 1
    row = full
    for unit in right:
        hits = row & places.get(unit, 0)
        row = (row + hits | row - hits) & full
    return len(left) - row.bit_count()
