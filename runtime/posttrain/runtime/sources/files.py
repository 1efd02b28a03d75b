"""Rows from files beside the recipe: JSON lines, JSON, CSV or Parquet, as they are or compressed."""

import csv
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, Literal, cast

from posttrain.runtime.context import Context
from posttrain.runtime.sources.inference import columns_of, held_to, readable
from posttrain.spec.declared import field
from posttrain.spec.extension import Params, Source
from posttrain.spec.types import Columns, typed_columns

_READ_AT_MOST = 8 * 1024 * 1024  # what the compiler is willing to look through
_ENDINGS = {"jsonl": "jsonl", "ndjson": "jsonl", "json": "json", "csv": "csv", "parquet": "parquet"}


class Files(Params, bare="path"):
    path: list[str] = field(
        single=True, min_length=1, description="The file, or several, relative to the recipe's folder."
    )
    format: Literal["auto", "jsonl", "json", "csv", "parquet"] = field(
        default="auto", description="The files' format; auto goes by their ending, before .gz or .zst."
    )
    columns: dict[str, str] | None = field(
        default=None,
        min_length=1,
        check=typed_columns,
        description="The columns to read, with their types; told from the content when not given.",
    )

    def check(self) -> None:
        for path in self.path:
            format_of(path, self.format)


def format_of(path: str, given: str) -> str:
    """The format of a file. ValueError when its ending says none."""
    if given != "auto":
        return given
    name = PurePosixPath(path)
    ending = PurePosixPath(name.stem).suffix if name.suffix in (".gz", ".zst") else name.suffix
    if ending[1:] not in _ENDINGS:
        known = ", ".join(sorted(set(_ENDINGS.values())))
        raise ValueError(f"the ending of `{path}` says no format; add `format`, one of {known}")
    return _ENDINGS[ending[1:]]


def infer(params: Files, contents: Sequence[bytes]) -> tuple[Columns, int | None]:
    """Columns and number of rows, when the files are few and plain enough to be looked through here."""
    rows: list[dict[str, Any]] = []
    texts = False
    for path, data in zip(params.path, contents, strict=True):
        kind = format_of(path, params.format)
        text = _text(path, kind, data)
        if text is None:
            if params.columns is None:
                raise ValueError(
                    f"the columns of `{path}` cannot be told here; add `columns`, with their types"
                )
            return params.columns, None
        rows += _rows(path, kind, text)
        texts = texts or kind == "csv"
    if not rows:
        raise ValueError("there are no rows")
    found = columns_of(rows)
    if params.columns is None:
        return found, len(rows)
    held_to(
        params.columns,
        {name: _loosest(name, params.columns, found) if texts else found[name] for name in found},
    )
    return params.columns, len(rows)


def _loosest(name: str, declared: Columns, found: Columns) -> str:
    """In CSV, text may be read as what it looks like, or stay text; lists stand as JSON."""
    type = declared.get(name, "text")
    return type if type == "text" or found[name] == "text" or readable(type, found[name]) else found[name]


def _text(path: str, kind: str, data: bytes) -> str | None:
    """A file's text; None when it is too large, or only the database reads such a file."""
    if kind == "parquet" or path.endswith(".zst"):
        return None
    if path.endswith(".gz"):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                data = file.read(_READ_AT_MOST + 1)
        except (OSError, EOFError) as error:
            raise ValueError(f"`{path}` is not gzip: {error}") from None
    if len(data) > _READ_AT_MOST:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise ValueError(f"`{path}` is UTF-16; save it as UTF-8") from None
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}:{line} is not UTF-8: byte {error.start} of the file") from None


def _rows(path: str, kind: str, text: str) -> list[dict[str, Any]]:
    if kind == "csv":
        return _csv_rows(path, text)
    if kind == "json":
        found = _value(path, text)
        values = cast(list[Any], found) if isinstance(found, list) else [found]
        places = [f"{path}: row {number}" for number in range(1, len(values) + 1)]
    else:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        values = [_value(f"{path}:{number}", line) for number, line in lines]
        places = [f"{path}:{number}" for number, _ in lines]
    for place, value in zip(places, values, strict=True):
        if not isinstance(value, dict):
            raise ValueError(f"{place} is no JSON object")
    return values


def _value(place: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{place} is not JSON: {_why_no_json(error, text)}") from None
    except RecursionError:
        raise ValueError(f"{place} is nested too deeply") from None
    except ValueError:  # a number of thousands of digits
        raise ValueError(f"{place} has a number with too many digits") from None


def _why_no_json(error: json.JSONDecodeError, text: str) -> str:
    if error.msg == "Extra data" and text.count("\n", 0, error.pos):
        return "the file has an object in each line, it seems: add `format: jsonl`"
    if text.strip() in ("[", "{"):
        return "the file is one JSON document, it seems: add `format: json`"
    return f"{error.msg[:1].lower()}{error.msg[1:]} at column {error.colno}"


def _csv_rows(path: str, text: str) -> list[dict[str, Any]]:
    lines = csv.reader(io.StringIO(text, newline=""))
    try:
        header = next(lines, [])
        twice = next((name for name in header if header.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"`{path}` has two columns named `{twice}`")
        if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
            raise ValueError(
                f"the header of `{path}` has no comma, which is what separates columns: `{header[0]}`"
            )
        rows: list[dict[str, Any]] = []
        for line in lines:
            if line and len(line) != len(header):
                fields = f"{len(line)} field{'s' if len(line) > 1 else ''}"
                raise ValueError(f"{path}:{lines.line_num} has {fields}, and the header {len(header)}")
            rows += [{name: _seen(cell) for name, cell in zip(header, line, strict=True)}] if line else []
    except csv.Error as error:
        raise ValueError(f"{path}:{lines.line_num} is not CSV: {error}") from None
    return rows


def _seen(cell: str) -> Any:
    """A cell as what it looks like: a number only if it is written as JSON writes one, so 007 is text."""
    if not cell:
        return None
    low = cell.strip().lower()
    try:
        value = json.loads(low if low in ("true", "false") else cell)
    except (ValueError, RecursionError):
        return cell
    return value if isinstance(value, bool | int | float) else cell


EXTENSION = Source(
    name="files",
    summary="Rows from files beside the recipe.",
    params=Files,
    columns=lambda params: params.columns,
    files=lambda params: params.path,
    infer=infer,
    beginnings=True,
    stack=("duckdb",),
)


def run(params: Files, context: Context, connection: Any) -> None:
    """Make the table `source`."""
    from posttrain.runtime.sources.reading import read_files

    paths = [context.files[f"rows{index}"] for index in range(len(params.path))]
    formats = [format_of(path, params.format) for path in params.path]
    columns = params.columns
    if columns is None:
        columns, _ = infer(params, [path.read_bytes() for path in paths])
    read_files(connection, paths, formats, columns)
