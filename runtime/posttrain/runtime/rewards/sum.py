"""The sum of numbers; a sum with a part that abstains abstains."""

from collections.abc import Sequence

from posttrain.runtime.rewards.arithmetic import added, drowned, rowwise
from posttrain.runtime.rewards.batch import Batch, Operands
from posttrain.spec.extension import Operand, Ranges, Remark, RewardOp
from posttrain.spec.types import Interval


def reach(params: object, operands: Ranges) -> Interval:
    return Interval(
        added([part.low for part in operands["of"]]), added([part.high for part in operands["of"]])
    )


def remarks(params: object, operands: Ranges) -> Sequence[Remark]:
    return drowned(operands["of"])


EXTENSION = RewardOp(
    name="sum",
    summary="The sum of its parts; it abstains when one of them does.",
    operands={"of": Operand(type="number", many=True, description="The numbers that are added.")},
    yields="number",
    range=reach,
    remarks=remarks,
)


def run(params: object, operands: Operands, batch: Batch) -> list[float | None]:
    return rowwise(added, operands["of"])
