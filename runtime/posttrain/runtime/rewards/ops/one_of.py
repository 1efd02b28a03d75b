"""Whether a text is one of several."""

from collections.abc import Sequence

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.runtime.rewards.text_parsing.text_folding import Folding, fold_text
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Ranges, Remark, RewardOp


class OneOf(Folding):
    values: list[str] = field(default=[], description="Texts that it may be.")


def remarks(params: OneOf, operands: Ranges) -> Sequence[Remark]:
    if params.values or "among" in operands:
        return ()
    return (Remark(kind="refused", message="`one_of` needs `values`, or a list to look `among`"),)


EXTENSION = RewardOp(
    name="one_of",
    summary="True when a text is one of `values` or of a list that the data has; it abstains without a list.",
    params=OneOf,
    operands={
        "of": Operand(type="text", description="The text that is looked up."),
        "among": Operand(
            type="list<text>",
            required=False,
            description="The row's own list of texts, in place of `values`.",
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
