"""The code of a fenced Markdown block."""

import re
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands
from posttrain.spec.extension import Operand, Params, RewardOp
from posttrain.spec.field_types import Items

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$")


class CodeBlock(Params):
    language: str | Items[str] | None = Field(
        default=None,
        description="Use only blocks tagged with this language, or with one of these. By default, any block.",
    )
    pick: Literal["first", "last"] = Field(
        default="last", description="The block to use if there are several."
    )


EXTENSION = RewardOp(
    name="code_block",
    summary="The code of a fenced Markdown block. Absent if the text has no closed block.",
    params=CodeBlock,
    operands={"of": Operand(type="text", description="The text to search.")},
    yields="text",
)


def run(params: CodeBlock, operands: Operands, batch: Batch) -> list[str | None]:
    return [None if text is None else extract_code_block(text, params) for text in operands["of"]]


def extract_code_block(text: str, params: CodeBlock) -> str | None:
    languages = [params.language] if isinstance(params.language, str) else params.language
    blocks = [code for language, code in find_code_blocks(text) if languages is None or language in languages]
    if not blocks:
        return None
    return blocks[-1] if params.pick == "last" else blocks[0]


def find_code_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the language and the code of each closed block. The closing fence is at least as long as the
    opening one."""
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
