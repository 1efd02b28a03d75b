"""Parses the rows of a file that the compiler can inspect before a run, with the line of each row.

A small file is read completely. Of a large file with one row per line, only the first rows are read. The rows
of Parquet and Zstandard files are not read here; `parquet_footer.py` reads the metadata of Parquet. The cells
of CSV and TSV are text: their types follow from all rows of all files.
"""

import gzip
import io
import json
from typing import Any, cast

from posttrain.runtime.sources.delimited_text import DELIMITERS, read_rows
from posttrain.spec.record import record

_MAX_READ_BYTES = 8 * 1024 * 1024
_PREVIEW_BYTES = 1024 * 1024
_MAX_ATTEMPTS = 50  # lines to drop in the search for the end of a CSV row
Row = dict[str, Any]


@record
class FilePreview:
    """The rows that were read, the place of each, and whether these are all rows of the file."""

    rows: list[Row]
    places: list[str]
    complete: bool


def preview_file(path: str, kind: str, data: bytes) -> FilePreview:
    """Parse the first rows of a file. Raise ValueError for content that does not match the format."""
    if kind == "parquet" or path.endswith(".zst"):
        return FilePreview([], [], complete=False)
    data = _decompress(path, data)
    whole = len(data) <= _MAX_READ_BYTES
    text = _text(path, data if whole else _first_rows(kind, data))
    if not whole and not text:
        return FilePreview([], [], complete=False)
    rows, places = _rows(path, kind, text)
    return FilePreview(rows, places, whole)


def _decompress(path: str, data: bytes) -> bytes:
    if not path.endswith(".gz"):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return file.read(_MAX_READ_BYTES + 1)
    except (OSError, EOFError) as error:
        raise ValueError(f"`{path}` is not a valid gzip file: {error}") from None


def _first_rows(kind: str, data: bytes) -> bytes:
    """The first rows of a large file, or nothing when rows cannot be separated without reading all of it."""
    if kind == "json":
        return b""
    cut = data.rfind(b"\n", 0, _PREVIEW_BYTES) + 1
    for _ in range(_MAX_ATTEMPTS):
        # After an odd number of quotes, a newline is part of a cell.
        if kind == "jsonl" or data.count(b'"', 0, cut) % 2 == 0:
            return data[:cut]
        cut = data.rfind(b"\n", 0, cut - 1) + 1
    return b""


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise ValueError(f"`{path}` is UTF-16; save it as UTF-8") from None
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}:{line} is not valid UTF-8 at byte {error.start} of the file") from None


def _rows(path: str, kind: str, text: str) -> tuple[list[Row], list[str]]:
    if kind in DELIMITERS:
        numbered = list(read_rows(path, kind, io.StringIO(text, newline="")))
        return [row for _, row in numbered], [f"{path}:{number}" for number, _ in numbered]
    if kind == "json":
        document = _value(path, text)
        values = cast(list[Any], document) if isinstance(document, list) else [document]
        places = [f"{path}: row {number}" for number in range(1, len(values) + 1)]
    else:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        values = [_value(f"{path}:{number}", line) for number, line in lines]
        places = [f"{path}:{number}" for number, _ in lines]
    for place, value in zip(places, values, strict=True):
        if not isinstance(value, dict):
            raise ValueError(f"{place} is not a JSON object")
    return values, places


def _value(place: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{place} is not valid JSON: {_why_no_json(error, text)}") from None
    except RecursionError:
        raise ValueError(f"{place} is nested too deeply") from None
    except ValueError:  # a number of thousands of digits
        raise ValueError(f"{place} has a number with too many digits") from None


def _why_no_json(error: json.JSONDecodeError, text: str) -> str:
    if error.msg == "Extra data" and text.count("\n", 0, error.pos):
        return "the file seems to have one object per line; add `format: jsonl`"
    if text.strip() in ("[", "{"):
        return "the file seems to be one JSON document; add `format: json`"
    return f"{error.msg[:1].lower()}{error.msg[1:]} at column {error.colno}"
