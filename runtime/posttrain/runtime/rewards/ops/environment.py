"""What the environment made of the episode that a completion is."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.spec.column_types import Interval, Type
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, Ranges, Remark, RewardOp

_MAX_TURNS = 1000
_TYPES: Mapping[str, Type] = {"score": "number", "solved": "boolean", "turns": "integer"}


class Environment(Params):
    metric: Literal["score", "solved", "turns"] = field(
        default="score",
        description="The environment's own score, whether that is its greatest, or how many turns it took.",
    )
    low: float = field(default=0.0, description="The least score of the environments that this is used for.")
    high: float = field(default=1.0, description="The greatest of them.")


def value_range(params: Environment, operands: Ranges) -> Interval:
    if params.metric == "score":
        return Interval(params.low, params.high)
    return Interval(0.0, 1.0 if params.metric == "solved" else _MAX_TURNS)


def remarks(params: Environment, operands: Ranges) -> Sequence[Remark]:
    if "of" in operands:
        message = "this reads the episode, and no other node"
        return (Remark(kind="refused", message=message, help="write `{environment: {metric: score}}`"),)
    if params.low >= params.high:
        return (Remark(kind="refused", message="`low` must lie below `high`", at=("low",)),)
    return ()


EXTENSION = RewardOp(
    name="environment",
    summary="The score that the stage's environment gives the episode, or another figure of it.",
    params=Environment,
    # Never given: it is there so that a bare value is told of, and not passed over.
    operands={
        "of": Operand(
            required=False, description="Not to be given: what is wanted of the episode is given by `metric`."
        )
    },
    yields="number",
    infer_type=lambda params: _TYPES[params.metric],
    range=value_range,
    remarks=remarks,
)


def run(params: Environment, operands: Operands, batch: Batch) -> OpResult:
    if batch.episodes is None:
        return OpResult(values=[None] * batch.count, reasons=["no episode was played"] * batch.count)
    values: list[Any] = [episode[params.metric] for episode in batch.episodes]
    return OpResult(values=values, reasons=[episode["reason"] for episode in batch.episodes])
