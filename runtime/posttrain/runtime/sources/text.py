"""Passages of plain-text books."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal

from posttrain.runtime.step_context import StepContext
from posttrain.spec.column_types import Columns
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import InferredSchema, Params, Source

_BLANK = re.compile(r"\n[ \t\r\f]*\n\s*")


class Text(Params, bare="path"):
    path: list[str] = field(
        single=True, min_length=1, description="The file, or several, relative to the recipe's folder."
    )
    by: Literal["paragraphs", "characters", "file"] = field(
        default="paragraphs",
        description="Whole paragraphs, as many as fit in a passage; pieces of one length; or all at once.",
    )
    longest: int = field(default=2000, ge=20, description="The most characters of a passage.")
    shortest: int = field(default=1, ge=1, description="Passages of fewer characters are left out.")

    def check(self) -> None:
        if self.shortest > self.longest:
            raise ValueError(f"`shortest` ({self.shortest}) lies above `longest` ({self.longest})")


_COLUMNS: Columns = {"passage": "text", "source": "text", "number": "integer"}


def infer(params: Text, contents: Sequence[bytes]) -> InferredSchema:
    return InferredSchema(columns=_COLUMNS, rows=len(passage_rows(params, contents)))


EXTENSION = Source(
    name="text",
    summary="Passages of plain text: `passage`, the `source` it is from, and its `number` in it.",
    params=Text,
    columns=lambda params: _COLUMNS,
    files=lambda params: params.path,
    infer=infer,
    stack=("duckdb",),
)


def run(params: Text, context: StepContext, connection: Any) -> None:
    """Make the table `source`."""
    from posttrain.runtime.sources.python_rows import load_python_rows

    contents = [context.files[f"rows{index}"].read_bytes() for index in range(len(params.path))]
    load_python_rows(connection, passage_rows(params, contents), _COLUMNS)


def passage_rows(params: Text, contents: Sequence[bytes]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path, data in zip(params.path, contents, strict=True):
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"`{path}` is not UTF-8: byte {error.start}") from None
        name = PurePosixPath(path).stem
        kept = [passage for passage in split_passages(text, params) if len(passage) >= params.shortest]
        rows += [{"passage": one, "source": name, "number": number} for number, one in enumerate(kept, 1)]
    return rows


def split_passages(text: str, params: Text) -> Iterator[str]:
    """The passages of a text, in order; only white space is lost between them."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if params.by == "file":
        yield from [text] if text else []
        return
    pieces = _BLANK.split(text) if params.by == "paragraphs" else [text]
    gathered = ""
    for piece in (part for whole in pieces for part in _split_long(whole.strip(), params.longest)):
        joined = f"{gathered}\n\n{piece}" if gathered else piece
        if params.by == "paragraphs" and len(joined) <= params.longest:
            gathered = joined
            continue
        yield from [gathered] if gathered else []
        gathered = piece
    yield from [gathered] if gathered else []


def _split_long(text: str, longest: int) -> Iterator[str]:
    """Pieces of at most so many characters, cut after a sentence where one ends, else after a word."""
    while len(text) > longest:
        at = _split_position(text, longest)
        yield text[:at].rstrip()
        text = text[at:].lstrip()
    if text:
        yield text


def _split_position(text: str, longest: int) -> int:
    """Where to cut: after the last sentence of the second half that fits, else the last word."""
    head = text[:longest]
    sentence = max(
        (match.end() for match in re.finditer(r"[.!?][\"')\]\u201d\u2019]*(?=\s)", head)), default=0
    )
    if sentence >= longest // 2:
        return sentence
    word = max(head.rfind(" "), head.rfind("\n"))
    return word + 1 if word > 0 else longest
