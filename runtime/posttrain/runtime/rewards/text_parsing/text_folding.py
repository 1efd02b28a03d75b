"""How two texts are made alike before they are compared."""

from typing import Literal

from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Params


class Folding(Params):
    whitespace: Literal["collapse", "ignore", "exact"] = field(
        default="collapse",
        description="White space: runs count as one space and none at the ends, or it does not count at"
        " all, or every character of it does.",
    )
    ignore_case: bool = field(default=False, description="Take capitals for small letters.")


def fold_text(text: str, params: Folding) -> str:
    if params.whitespace != "exact":
        text = (" " if params.whitespace == "collapse" else "").join(text.split())
    return text.casefold() if params.ignore_case else text
