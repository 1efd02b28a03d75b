"""The share of repeated n-grams in a text."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Params, Ranges, RewardOp


class Repetition(Params):
    ngram_size: int = Field(default=4, ge=1, le=100, description="The length of an n-gram, in units.")
    unit: Literal["words", "characters"] = Field(default="words", description="The unit of the n-grams.")


def value_range(params: Repetition, operands: Ranges) -> Interval:
    return Interval(0.0, 1.0)


EXTENSION = RewardOp(
    name="repetition",
    summary="The share of n-grams of a text that are repeats of earlier ones: 0 without repetition, close to"
    " 1 if the text repeats one n-gram. Abstains if the text is absent.",
    params=Repetition,
    operands={"of": Operand(type="text", description="The text to measure.")},
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
    distinct = {tuple(units[at : at + params.ngram_size]) for at in range(count)}
    return 1.0 - len(distinct) / count
