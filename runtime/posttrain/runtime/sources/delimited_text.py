"""Reads CSV and TSV: cells as text, exactly as in the file. An empty cell is null.

The compiler and the run read files with this parser, so that both see the same rows. It detects nothing: a
line that looks like a comment is a row.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from posttrain.spec.column_types import Columns, Type

DELIMITERS = {"csv": ",", "tsv": "\t"}
TextRow = dict[str, str | None]
_MAX_CELL = 2**31 - 1  # the default of the standard library rejects texts above 128 KiB
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")


def read_rows(path: str, kind: str, lines: Iterable[str]) -> Iterator[tuple[int, TextRow]]:
    """Each row with the line on which it starts. Raise ValueError for content that is not CSV."""
    csv.field_size_limit(_MAX_CELL)
    cells = csv.reader(lines, delimiter=DELIMITERS[kind], strict=True)
    try:
        header = next(cells, [])
        _check_header(path, kind, header)
        first_line = cells.line_num + 1
        for row in cells:
            if row and len(row) != len(header):
                fields = f"{len(row)} field{'s' if len(row) > 1 else ''}"
                raise ValueError(f"{path}:{cells.line_num} has {fields}, but the header has {len(header)}")
            if row:
                yield first_line, {name: cell or None for name, cell in zip(header, row, strict=True)}
            first_line = cells.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}:{cells.line_num} is not valid {kind.upper()}: {error}") from None


def _check_header(path: str, kind: str, header: Sequence[str]) -> None:
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"duplicate column `{twice}` in `{path}`")
    if len(header) == 1 and any(mark in header[0] for mark in ",;\t|"):
        name = "tab" if kind == "tsv" else "comma"
        hint = "; add `format: tsv`" if "\t" in header[0] else f"; save the file as {name}-separated values"
        raise ValueError(f"the header of `{path}` has no {name}: `{header[0]}`{hint}")


def infer_cell_types(rows: Sequence[TextRow]) -> Columns:
    """The type of each column: that of all its cells, or text. A type other than text loses no value."""
    cells: dict[str, list[str]] = {}
    for row in rows:
        for name, cell in row.items():
            column = cells.setdefault(name, [])
            if cell is not None:
                column.append(cell)
    return {name: _type_of_cells(column) for name, column in cells.items()}


def _type_of_cells(cells: Sequence[str]) -> Type:
    if not cells:
        return "any"
    if all(cell.lower() in ("true", "false") for cell in cells):
        return "boolean"
    if all(_INTEGER.fullmatch(cell) and -(2**63) <= int(cell) < 2**63 for cell in cells):
        return "integer"
    return "number" if all(_is_exact_number(cell) for cell in cells) else "text"


def _is_exact_number(cell: str) -> bool:
    """Whether a float has the value of the cell: not for long integers, nor for 007 or 1e999."""
    return bool(_NUMBER.fullmatch(cell)) and Decimal(repr(float(cell))) == Decimal(cell)


def typed_row(row: TextRow, types: Mapping[str, Type]) -> dict[str, Any]:
    return {name: None if cell is None else _typed_cell(cell, types[name]) for name, cell in row.items()}


def _typed_cell(cell: str, type: Type) -> Any:
    match type:
        case "boolean":
            return cell.lower() == "true"
        case "integer":
            return int(cell)
        case "number":
            return float(cell)
        case _:
            return cell
