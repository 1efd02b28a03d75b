"""Normalizes white space and case of texts before a comparison."""

from typing import Literal

from pydantic import Field

from posttrain.spec.extension import Params


class Folding(Params):
    whitespace: Literal["collapse", "ignore", "exact"] = Field(
        default="collapse",
        description="The treatment of white space: `collapse` replaces each run with one space and strips the"
        " ends, `ignore` removes all white space, `exact` compares it as it is.",
    )
    ignore_case: bool = Field(default=False, description="Ignore case.")


def fold_text(text: str, params: Folding) -> str:
    if params.whitespace != "exact":
        text = (" " if params.whitespace == "collapse" else "").join(text.split())
    return text.casefold() if params.ignore_case else text
