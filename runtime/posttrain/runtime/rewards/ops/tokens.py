"""The number of tokens of a completion, as reported by the engine that generated it."""

from collections.abc import Sequence

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, Remark, RewardOp

_UNCOUNTED = "the number of tokens is not known"


def value_range(params: object, operands: Ranges) -> Interval:
    return Interval(0.0, float("inf"))


def remarks(params: object, operands: Ranges) -> Sequence[Remark]:
    if "of" not in operands:
        return ()
    message = "`tokens` takes no `of`: it counts the tokens of the completion"
    return (Remark(kind="refused", message=message, help="write `{tokens: {}}`; `length` measures texts"),)


EXTENSION = RewardOp(
    name="tokens",
    summary="The number of tokens of the completion, without the end-of-sequence token. In an environment,"
    " all tokens of the episode after the prompt. Abstains if the number is not known: for some endpoints,"
    " and for texts from files.",
    # Always refused. Declared so that a bare value (`tokens: NODE`) is an error, not ignored.
    operands={"of": Operand(required=False, description="Not allowed: the op counts the completion.")},
    yields="integer",
    range=value_range,
    remarks=remarks,
)


def run(params: object, operands: Operands, batch: Batch) -> OpResult:
    counts = list(batch.tokens or [None] * batch.count)
    return OpResult(values=counts, reasons=[_UNCOUNTED if count is None else None for count in counts])
