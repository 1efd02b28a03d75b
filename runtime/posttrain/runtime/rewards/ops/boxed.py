"""What a LaTeX box holds."""

import re
from typing import Literal

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, RewardOp

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


class Boxed(Params):
    pick: Literal["first", "last", "only"] = field(
        default="last", description="Which box counts, if there are several; `only` then takes none."
    )


EXTENSION = RewardOp(
    name="boxed",
    summary="What a box, \\boxed{...} or \\fbox{...}, holds between its braces; absent when none is closed.",
    params=Boxed,
    operands={"of": Operand(type="text", description="The text in which a box is looked for.")},
    yields="text",
)


def run(params: Boxed, operands: Operands, batch: Batch) -> list[str | None]:
    return [None if text is None else extract_boxed(text, params.pick) for text in operands["of"]]


def extract_boxed(text: str, pick: str) -> str | None:
    """The content of the box that counts, without the white space around it."""
    found = find_boxes(text)
    if not found or (pick == "only" and len(found) > 1):
        return None
    return found[-1] if pick == "last" else found[0]


def find_boxes(text: str) -> list[str]:
    """The contents of all closed boxes that lie in no other, in order."""
    found: list[str] = []
    at = 0
    while box := _BOX.search(text, at):
        end = _find_closing_brace(text, box.end())
        if end is None:  # never closed, and then no box after it can be told from its content
            break
        found.append(text[box.end() : end].strip())
        at = end + 1
    return found


def _find_closing_brace(text: str, at: int) -> int | None:
    """Where the brace is that closes the one before `at`; escaped braces do not count."""
    depth = 1
    for brace in _BRACE.finditer(text, at):
        if brace[0] in "{}":
            depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return None
