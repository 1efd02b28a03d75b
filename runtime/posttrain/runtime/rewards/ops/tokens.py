"""How many tokens a completion has, as those who wrote it counted."""

from collections.abc import Sequence

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, Remark, RewardOp

_UNCOUNTED = "nobody has counted its tokens"


def value_range(params: object, operands: Ranges) -> Interval:
    return Interval(0.0, float("inf"))


def remarks(params: object, operands: Ranges) -> Sequence[Remark]:
    if "of" not in operands:
        return ()
    message = "this counts the completion as it was written, and no other text"
    return (Remark(kind="refused", message=message, help="write `{tokens: {}}`; `length` measures texts"),)


EXTENSION = RewardOp(
    name="tokens",
    summary="How many tokens the completion has, its end token aside; in an environment all of an episode"
    " that follows its prompt. It abstains where nobody counts them: of some endpoints, and of texts in"
    " files.",
    # Never given: it is there so that a bare value is told of, and not passed over.
    operands={"of": Operand(required=False, description="Not to be given: it is the completion.")},
    yields="integer",
    range=value_range,
    remarks=remarks,
)


def run(params: object, operands: Operands, batch: Batch) -> OpResult:
    counts = list(batch.tokens or [None] * batch.count)
    return OpResult(values=counts, reasons=[_UNCOUNTED if count is None else None for count in counts])
