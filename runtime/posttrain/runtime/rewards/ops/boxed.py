"""The content of a LaTeX box."""

import re
from typing import Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.extension import Operand, Params, RewardOp

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


class Boxed(Params):
    pick: Literal["first", "last", "only"] = Field(
        default="last",
        description="The box to use if there are several. `only` requires exactly one box.",
    )


EXTENSION = RewardOp(
    name="boxed",
    summary="The content of \\boxed{...} or \\fbox{...}. Absent if the text has no box with balanced braces.",
    params=Boxed,
    operands={"of": Operand(type="text", description="The text to search.")},
    yields="text",
)


def run(params: Boxed, operands: Operands, batch: Batch) -> list[str | None]:
    return [None if text is None else extract_boxed(text, params.pick) for text in operands["of"]]


def extract_boxed(text: str, pick: str) -> str | None:
    """The content of the selected box, without surrounding white space."""
    boxes = find_boxes(text)
    if not boxes or (pick == "only" and len(boxes) > 1):
        return None
    return boxes[-1] if pick == "last" else boxes[0]


def find_boxes(text: str) -> list[str]:
    """The contents of all closed, outermost boxes, in order."""
    boxes: list[str] = []
    at = 0
    while box := _BOX.search(text, at):
        end = _find_closing_brace(text, box.end())
        if end is None:  # an unclosed box: boxes after it may be part of its content
            break
        boxes.append(text[box.end() : end].strip())
        at = end + 1
    return boxes


def _find_closing_brace(text: str, at: int) -> int | None:
    """The index of the brace that closes the one before `at`. Escaped braces are ignored."""
    depth = 1
    for brace in _BRACE.finditer(text, at):
        if brace[0] in "{}":
            depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return None
