"""Columns of CSV, TSV, JSON Lines and Parquet: text comes back as written, and a type loses no value."""

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from tests.runtime.data.build_datasets import BuiltDatasets, compile_datasets

from posttrain.runtime.errors import StepError

BIG = str(2**53 + 1)
# The cells of a column, and its type.
COLUMNS: dict[str, tuple[list[str], str]] = {
    "leading_zeros": (["007", "1.50", ""], "text"),
    "codes": (["01", "02", "03"], "text"),
    "quotes": (['"', 'say "x"', '""'], "text"),
    "lines": (["a\nb", "c\r\nd", ",;\t|"], "text"),
    "blanks": ([" x", "y ", " 1 "], "text"),
    "names_of_nothing": (["NA", "NULL", "None"], "text"),
    "floats_of_python": (["NaN", "Infinity", "-inf"], "text"),
    "dates": (["2024-01-02", "2024-13-45", "01/02/03"], "text"),
    "mixed": (["1", "true", "x"], "text"),
    "booleans_and_digits": (["true", "0", "false"], "text"),
    "json": (['{"a": 1}', "[1, 2]", "null"], "text"),
    "comments": (["# one", "-- two", "// three"], "text"),
    "signs": (["+1", "-0", "1_000"], "text"),
    "long_integers": ([str(2**63), "1", "2"], "text"),
    "integers_and_decimals_too_long_for_a_float": ([BIG, "0.5", "1"], "text"),
    "long_decimals": (["0.1234567890123456789", "1", "2"], "text"),
    "overflow": (["1e999", "1", "2"], "text"),
    "integers": (["-3", "", str(2**63 - 1)], "integer"),
    "numbers": (["1.50", "-2e3", "7"], "number"),
    "booleans": (["true", "FALSE", ""], "boolean"),
}


def delimited(delimiter: str, columns: dict[str, list[str]]) -> bytes:
    """The file, written by hand: every cell with a special character is quoted."""

    def cell(text: str) -> str:
        quoted = any(mark in text for mark in '",;\t|\r\n')
        return '"' + text.replace('"', '""') + '"' if quoted else text

    lines = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    return "".join(delimiter.join(map(cell, line)) + "\r\n" for line in lines).encode()


def build(folder: Path, name: str, data: bytes, **columns: str) -> BuiltDatasets:
    source = {"path": name, **({"columns": columns} if columns else {})}
    return BuiltDatasets(folder, {"it": {"from": {"files": source}}}, {name: data})


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.csv.gz"])
def test_cells_come_back_byte_by_byte(tmp_path: Path, name: str):
    columns = {column: cells for column, (cells, _) in COLUMNS.items()}
    delimiter = "\t" if "tsv" in name else ","
    data = delimited(delimiter, columns)
    by_csv = list(csv.DictReader(io.StringIO(data.decode(), newline=""), delimiter=delimiter))
    assert {column: [row[column] for row in by_csv] for column in columns} == columns
    found = build(tmp_path, name, gzip.compress(data) if name.endswith("gz") else data)
    assert found.columns("it") == {column: type for column, (_, type) in COLUMNS.items()}
    rows = found.rows("it")
    for column, (cells, type) in COLUMNS.items():
        read = [row[column] for row in rows]
        expected: list[Any] = [cell or None for cell in cells]
        if type != "text":
            expected = [None if cell is None else json.loads(cell.lower()) for cell in expected]
        assert (column, read) == (column, expected)


def test_declared_text_keeps_every_column_as_written(tmp_path: Path):
    columns = {column: cells for column, (cells, _) in COLUMNS.items()}
    found = build(tmp_path, "rows.csv", delimited(",", columns), **dict.fromkeys(columns, "text"))
    assert found.rows("it") == [
        {column: cells[row] or None for column, cells in columns.items()} for row in range(3)
    ]


def test_a_column_of_several_files_has_one_type(tmp_path: Path):
    files = {"a.csv": b"code\n12\n", "b.tsv": b"code\n007\n"}
    found = BuiltDatasets(tmp_path, {"it": {"from": {"files": {"path": list(files)}}}}, files)
    assert found.columns("it") == {"code": "text"}
    assert found.rows("it") == [{"code": "12"}, {"code": "007"}]


def test_lines_are_neither_skipped_nor_taken_for_comments(tmp_path: Path):
    found = build(tmp_path / "a", "rows.csv", b"# title,b\n# one,1\nx,2\n")
    assert found.rows("it") == [{"# title": "# one", "b": 1}, {"# title": "x", "b": 2}]
    found = build(tmp_path / "b", "rows.csv", b"a\n1\n\n2\n")
    assert found.rows("it") == [{"a": 1}, {"a": 2}]
    found = build(tmp_path / "c", "rows.csv", b"\xef\xbb\xbfa,b\n" + b"x" * 200_000 + b",1\n")
    assert [(len(row["a"]), row["b"]) for row in found.rows("it")] == [(200_000, 1)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'a,b\nx,"y\nz,1\n', "is not valid CSV: unexpected end of data"),
        (b'a,b\nx,"y"z\n', "is not valid CSV: ',' expected after"),
        (b"a\tb\n1\t2\n", "add `format: tsv`"),
    ],
)
def test_malformed_files_are_errors(data: bytes, message: str):
    (found,) = compile_datasets({"it": {"from": {"files": "rows.csv"}}}, {"rows.csv": data}).diagnostics
    assert message in found.message


def test_a_malformed_large_file_ends_the_step(tmp_path: Path):
    data = b"a,b\n" + b"x,1\n" * 2_200_000 + b"y\n"
    with pytest.raises(StepError, match=r"rows\.csv:2200002 has 1 field, but the header has 2"):
        build(tmp_path, "rows.csv", data, a="text", b="integer")


def test_text_of_json_lines_and_parquet(tmp_path: Path):
    texts = [cell for cells, _ in COLUMNS.values() for cell in cells]
    lines = "".join(json.dumps({"a": text}) + "\n" for text in texts).encode()
    assert [row["a"] for row in build(tmp_path / "j", "rows.jsonl", lines).rows("it")] == texts
    pyarrow.parquet.write_table(pyarrow.table({"a": texts}), tmp_path / "rows.parquet")
    parquet = (tmp_path / "rows.parquet").read_bytes()
    assert [row["a"] for row in build(tmp_path / "p", "rows.parquet", parquet, a="text").rows("it")] == texts
