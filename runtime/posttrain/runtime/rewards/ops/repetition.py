"""How much of a text repeats itself."""

from collections.abc import Sequence
from typing import Literal

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.column_types import Interval
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, Ranges, RewardOp


class Repetition(Params):
    ngram_size: int = field(default=4, ge=1, le=100, description="How many units in a row make one piece.")
    unit: Literal["words", "characters"] = field(default="words", description="What pieces are made of.")


def value_range(params: Repetition, operands: Ranges) -> Interval:
    return Interval(0.0, 1.0)


EXTENSION = RewardOp(
    name="repetition",
    summary="The share of a text's pieces that occurred in it before: 0 when none did, near 1 when all did."
    " It abstains when there is no text.",
    params=Repetition,
    operands={"of": Operand(type="text", description="The text whose pieces are counted.")},
    yields="number",
    range=value_range,
)


def run(params: Repetition, operands: Operands, batch: Batch) -> list[float | None]:
    return [None if text is None else repetition(text, params) for text in operands["of"]]


def repetition(text: str, params: Repetition) -> float:
    units: Sequence[str] = text.split() if params.unit == "words" else text
    count = len(units) - params.ngram_size + 1
    if count <= 0:
        return 0.0
    different = {tuple(units[at : at + params.ngram_size]) for at in range(count)}
    return 1.0 - len(different) / count
