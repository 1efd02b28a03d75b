"""Whether a text is in a list."""

from collections.abc import Sequence

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.text_parsing.text_folding import Folding, fold_text
from posttrain.spec.extension import Operand, Ranges, Remark, RewardOp
from posttrain.spec.field_types import Items


class OneOf(Folding):
    values: Items[str] = Field(default=(), description="The accepted texts.")


def remarks(params: OneOf, operands: Ranges) -> Sequence[Remark]:
    if params.values or "among" in operands:
        return ()
    return (Remark(kind="refused", message="`one_of` needs `values` or `among`"),)


EXTENSION = RewardOp(
    name="one_of",
    summary="True if a text is in `values` or in the row's list `among`. Abstains if that list is missing.",
    params=OneOf,
    operands={
        "of": Operand(type="text", description="The text to look up."),
        "among": Operand(
            type="list<text>",
            required=False,
            description="A list of accepted texts from the row, in addition to `values`.",
        ),
    },
    yields="boolean",
    remarks=remarks,
)


def run(params: OneOf, operands: Operands, batch: Batch) -> list[bool | None]:
    values = {fold_text(value, params) for value in params.values}
    lists = operands.get("among", [[]] * batch.count)
    return [_is_member(of, among, values, params) for of, among in zip(operands["of"], lists, strict=True)]


def _is_member(of: str | None, among: Sequence[str] | None, values: set[str], params: OneOf) -> bool | None:
    if among is None:
        return None
    if of is None:
        return False
    text = fold_text(of, params)
    return text in values or any(fold_text(one, params) == text for one in among)
