"""Source `text`: passages of plain-text files."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal

from pydantic import Field

from posttrain.runtime.step_context import StepContext
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import InferredSchema, Params, Source
from posttrain.spec.field_types import OneOrMore

_BLANK = re.compile(r"\n[ \t\r\f]*\n\s*")


class Text(Params, bare="path"):
    path: OneOrMore[str] = Field(
        min_length=1, description="One or more files, relative to the recipe's folder."
    )
    split_by: Literal["paragraphs", "characters", "file"] = Field(
        default="paragraphs",
        description="How to split a file: into passages of whole paragraphs, into passages of at most"
        " `max_characters`, or not at all.",
    )
    max_characters: int = Field(
        default=2000,
        ge=20,
        description="The maximum length of a passage in characters. Unused with `split_by: file`.",
    )
    min_characters: int = Field(
        default=1,
        ge=1,
        description="The minimum length of a passage in characters. Shorter ones are dropped.",
    )

    def check(self) -> None:
        if self.min_characters > self.max_characters:
            raise ValueError(
                f"`min_characters` ({self.min_characters}) is above `max_characters` ({self.max_characters})"
            )


_COLUMNS: Columns = {"passage": "text", "source": "text", "number": "integer"}


def infer(params: Text, contents: Sequence[bytes]) -> InferredSchema:
    return InferredSchema(columns=_COLUMNS, rows=len(passage_rows(params, contents)))


EXTENSION = Source(
    name="text",
    summary="Read passages of plain text: `passage`, `source` (the file's name), `number` (in the file).",
    params=Text,
    columns=lambda params: _COLUMNS,
    files=lambda params: params.path,
    infer=infer,
    stack=("duckdb",),
)


def run(params: Text, context: StepContext, connection: Any) -> None:
    """Create the table `source`."""
    from posttrain.runtime.sources.python_rows import load_python_rows

    contents = [context.files[f"rows{index}"].read_bytes() for index in range(len(params.path))]
    load_python_rows(connection, passage_rows(params, contents), _COLUMNS)


def passage_rows(params: Text, contents: Sequence[bytes]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path, data in zip(params.path, contents, strict=True):
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"`{path}` is not valid UTF-8 at byte {error.start}") from None
        name = PurePosixPath(path).stem
        passages = [
            passage for passage in split_passages(text, params) if len(passage) >= params.min_characters
        ]
        rows += [{"passage": one, "source": name, "number": number} for number, one in enumerate(passages, 1)]
    return rows


def split_passages(text: str, params: Text) -> Iterator[str]:
    """The passages of a text, in order. Only white space between passages is dropped."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if params.split_by == "file":
        yield from [text] if text else []
        return
    pieces = _BLANK.split(text) if params.split_by == "paragraphs" else [text]
    passage = ""
    for piece in (part for whole in pieces for part in _split_long(whole.strip(), params.max_characters)):
        joined = f"{passage}\n\n{piece}" if passage else piece
        if params.split_by == "paragraphs" and len(joined) <= params.max_characters:
            passage = joined
            continue
        yield from [passage] if passage else []
        passage = piece
    yield from [passage] if passage else []


def _split_long(text: str, max_characters: int) -> Iterator[str]:
    """Pieces of at most `max_characters`, split after a sentence if possible, else after a word."""
    while len(text) > max_characters:
        at = _split_position(text, max_characters)
        yield text[:at].rstrip()
        text = text[at:].lstrip()
    if text:
        yield text


def _split_position(text: str, max_characters: int) -> int:
    """The end of the last sentence in the second half of the limit, else the end of the last word."""
    head = text[:max_characters]
    sentence = max(
        (match.end() for match in re.finditer(r"[.!?][\"')\]\u201d\u2019]*(?=\s)", head)), default=0
    )
    if sentence >= max_characters // 2:
        return sentence
    word = max(head.rfind(" "), head.rfind("\n"))
    return word + 1 if word > 0 else max_characters
