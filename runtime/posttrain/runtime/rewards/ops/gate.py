"""A number that counts only if a condition holds."""

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.engine.kleene_logic import branch_range
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Ranges, RewardOp


def value_range(params: object, operands: Ranges) -> Interval:
    return branch_range(operands["when"][0], operands["of"][0], operands["otherwise"][0])


EXTENSION = RewardOp(
    name="gate",
    summary="The number `of` if the condition holds, else `otherwise` (0 by default). Abstains if the"
    " condition abstains.",
    operands={
        "of": Operand(type="number", description="The number if the condition holds."),
        "when": Operand(type="boolean", description="The condition."),
        "otherwise": Operand(
            type="number",
            required=False,
            default=0.0,
            description="The number if the condition does not hold.",
        ),
    },
    yields="number",
    range=value_range,
)


def run(params: object, operands: Operands, batch: Batch) -> list[float | None]:
    rows = zip(operands["of"], operands["when"], operands["otherwise"], strict=True)
    return [None if when is None else of if when else otherwise for of, when, otherwise in rows]
