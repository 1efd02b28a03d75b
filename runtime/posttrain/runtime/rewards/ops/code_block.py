"""A fenced block of code."""

import re
from collections.abc import Iterator
from typing import Literal

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, RewardOp

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$")


class CodeBlock(Params):
    language: str | list[str] | None = field(
        default=None, description="Only blocks marked as this language, or as one of these."
    )
    pick: Literal["first", "last"] = field(
        default="last", description="Which block counts, if there are several."
    )


EXTENSION = RewardOp(
    name="code_block",
    summary="The code of a fenced block; absent when none is opened and closed.",
    params=CodeBlock,
    operands={"of": Operand(type="text", description="The text in which a fenced block is looked for.")},
    yields="text",
)


def run(params: CodeBlock, operands: Operands, batch: Batch) -> list[str | None]:
    return [None if text is None else extract_code_block(text, params) for text in operands["of"]]


def extract_code_block(text: str, params: CodeBlock) -> str | None:
    wanted = [params.language] if isinstance(params.language, str) else params.language
    found = [code for language, code in find_code_blocks(text) if wanted is None or language in wanted]
    if not found:
        return None
    return found[-1] if params.pick == "last" else found[0]


def find_code_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Language and code of each block that is closed, by a fence as long as the one that opens it."""
    fence, language, lines = "", "", list[str]()
    for line in text.split("\n"):
        match = _FENCE.match(line.rstrip("\r"))
        if not fence and match:
            fence, language, lines = match[1], match[2].strip().split(" ")[0].lower(), []
        elif fence and match and match[1].startswith(fence) and not match[2].strip():
            yield language, "\n".join(lines)
            fence = ""
        elif fence:
            lines.append(line)
