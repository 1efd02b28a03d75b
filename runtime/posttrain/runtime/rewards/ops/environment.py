"""The outcome of the environment's episode that a completion is."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.spec.column_types import Interval, Type
from posttrain.spec.extension import Operand, Params, Ranges, Remark, RewardOp

_MAX_TURNS = 1000
_TYPES: Mapping[str, Type] = {"score": "number", "solved": "boolean", "turns": "integer"}


class Environment(Params):
    metric: Literal["score", "solved", "turns"] = Field(
        default="score",
        description="`score`: the score of the episode. `solved`: whether it is the highest possible score."
        " `turns`: the number of turns.",
    )
    low: float = Field(default=0.0, description="The lowest score of the environments that use this reward.")
    high: float = Field(default=1.0, description="The highest score of these environments.")


def value_range(params: Environment, operands: Ranges) -> Interval:
    if params.metric == "score":
        return Interval(params.low, params.high)
    return Interval(0.0, 1.0 if params.metric == "solved" else _MAX_TURNS)


def remarks(params: Environment, operands: Ranges) -> Sequence[Remark]:
    if "of" in operands:
        message = "`environment` takes no `of`: it reads the episode"
        return (Remark(kind="refused", message=message, help="write `{environment: {metric: score}}`"),)
    if params.low >= params.high:
        return (Remark(kind="refused", message="`low` must be less than `high`", at=("low",)),)
    return ()


EXTENSION = RewardOp(
    name="environment",
    summary="The score of the episode in the stage's environment, whether the episode is solved, or its"
    " number of turns.",
    params=Environment,
    # Always refused. Declared so that a bare value (`environment: NODE`) is an error, not ignored.
    operands={"of": Operand(required=False, description="Not allowed: the op reads the episode itself.")},
    yields="number",
    infer_type=lambda params: _TYPES[params.metric],
    range=value_range,
    remarks=remarks,
)


def run(params: Environment, operands: Operands, batch: Batch) -> OpResult:
    if batch.episodes is None:
        return OpResult(values=[None] * batch.count, reasons=["there is no episode"] * batch.count)
    values: list[Any] = [episode[params.metric] for episode in batch.episodes]
    return OpResult(values=values, reasons=[episode["reason"] for episode in batch.episodes])
