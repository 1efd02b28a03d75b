"""The sources `files`, `rows` and `text`: every value is read without loss, or an error is reported."""

import csv
import gzip
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.data.build_datasets import BuiltDatasets, build_dataset, compile_datasets, plan_datasets

from posttrain.runtime.errors import StepError
from posttrain.runtime.sources.text import Text, split_passages

TURN = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=5)})
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8),
    "integer": st.integers(-(2**63), 2**63 - 1),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    "list<text>": st.lists(st.text("abé\"'\\", max_size=3), max_size=3),
    "list<list<integer>>": st.lists(st.lists(st.integers(-9, 9), max_size=2), max_size=2),
    "messages": st.lists(TURN, max_size=2),
}


def to_jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def build_from_files(folder: Path, files: dict[str, bytes], **source: Any) -> BuiltDatasets:
    params = source or {"path": list(files)}
    return BuiltDatasets(folder, {"it": {"from": {"files": {"path": list(files), **params}}}}, files)


@settings(max_examples=20)
@given(st.data())
def test_json_comes_back_value_by_value(data: st.DataObject):
    columns = data.draw(
        st.dictionaries(
            st.text("abC \"'é", min_size=1, max_size=4), st.sampled_from(list(VALUES)), min_size=1, max_size=3
        ).filter(lambda d: len({n.lower() for n in d}) == len(d))
    )
    rows = data.draw(
        st.lists(
            st.fixed_dictionaries({name: st.none() | VALUES[type] for name, type in columns.items()}),
            min_size=1,
            max_size=5,
        )
    )
    rows.append({name: data.draw(VALUES[type]) for name, type in columns.items()})
    with tempfile.TemporaryDirectory() as folder:
        found = build_from_files(Path(folder), {"rows.jsonl": to_jsonl(rows)}, columns=columns)
        assert found.rows("it") == rows
        assert found.plan.step("datasets.it").params["columns"] == columns


@pytest.mark.parametrize("type", VALUES)
def test_columns_are_told_from_the_content(tmp_path: Path, type: str):
    values = {
        "text": "a",
        "integer": 3,
        "number": 0.5,
        "boolean": True,
        "list<text>": ["a"],
        "list<list<integer>>": [[], [1]],
        "messages": [{"role": "user", "content": "a"}],
    }
    rows = [{"x": values[type]}, {"x": None}, {}]
    found = build_from_files(tmp_path, {"rows.jsonl": to_jsonl(rows)})
    assert found.columns("it") == {"x": type}
    assert found.rows("it") == [{"x": values[type]}, {"x": None}, {"x": None}]


def test_an_integer_beside_a_number_is_a_number_and_mixed_values_are_json(tmp_path: Path):
    rows = [{"n": 1, "m": 1, "e": []}, {"n": 0.5, "m": "a", "e": [{"role": "user", "content": "b"}]}]
    found = build_from_files(tmp_path, {"rows.jsonl": to_jsonl(rows)})
    assert found.columns("it") == {"n": "number", "m": "any", "e": "messages"}
    assert found.rows("it") == [{"n": 1.0, "m": "1", "e": []}, {"n": 0.5, "m": '"a"', "e": rows[1]["e"]}]


@pytest.mark.parametrize(
    "name",
    ["rows.jsonl", "rows.ndjson", "rows.json", "rows.csv", "rows.jsonl.gz", "rows.csv.gz", "rows.json.gz"],
)
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str):
    rows = [
        {"prompt": 'a "b", c\n', "n": 1, "x": 0.5, "ok": True},
        {"prompt": "007", "n": None, "x": -1.0, "ok": False},
    ]
    found = build_from_files(tmp_path, {name: written(name, rows)})
    assert found.columns("it") == {"prompt": "text", "n": "integer", "x": "number", "ok": "boolean"}
    assert found.rows("it") == rows


def written(name: str, rows: list[dict[str, Any]]) -> bytes:
    if name.endswith(".gz"):
        return gzip.compress(written(name[:-3], rows))
    if name.endswith(".csv"):
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(
            [
                {
                    key: "" if v is None else str(v).lower() if isinstance(v, bool) else v
                    for key, v in row.items()
                }
                for row in rows
            ]
        )
        return text.getvalue().encode()
    return json.dumps(rows).encode() if name.endswith(".json") else to_jsonl(rows)


def in_database(folder: Path, name: str, query: str, how: str) -> bytes:
    duckdb.sql(f"COPY ({query}) TO '{folder / name}' ({how})")
    return (folder / name).read_bytes()


def test_parquet_and_zstandard_are_read_with_declared_columns(tmp_path: Path):
    turns = "[{'role': 'user', 'content': 'b'}]"
    query = f"SELECT 'a' AS prompt, 3::INTEGER AS n, 1.5::DECIMAL(4,2) AS x, {turns} AS turns"
    columns = {"prompt": "text", "n": "number", "x": "number", "turns": "messages"}
    for name, how in {
        "rows.parquet": "FORMAT parquet",
        "rows.jsonl.zst": "FORMAT json, COMPRESSION zstd",
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        data = in_database(folder, name, query, how)
        found = build_from_files(folder, {name: data}, columns=columns)
        assert found.rows("it") == [
            {"prompt": "a", "n": 3.0, "x": 1.5, "turns": [{"role": "user", "content": "b"}]}
        ]
        assert [
            d.code for d in compile_datasets({"it": {"from": {"files": name}}}, {name: data}).diagnostics
        ] == ["PT0410"]


def test_parquet_that_is_not_as_declared_ends_the_step(tmp_path: Path):
    data = in_database(tmp_path, "rows.parquet", "SELECT 1.5::DOUBLE AS x", "FORMAT parquet")
    with pytest.raises(StepError, match="declared as integer but contains DOUBLE"):
        build_from_files(
            Path(tempfile.mkdtemp(dir=tmp_path)), {"rows.parquet": data}, columns={"x": "integer"}
        )


def test_a_column_that_parquet_does_not_have_is_told_before_it_is_read(tmp_path: Path):
    data = in_database(tmp_path, "rows.parquet", "SELECT 1.5::DOUBLE AS x", "FORMAT parquet")
    files = {"path": "rows.parquet", "columns": {"y": "number"}}
    (found,) = compile_datasets({"it": {"from": {"files": files}}}, {"rows.parquet": data}).diagnostics
    message = "missing column `y` in `rows.parquet`; its columns are x"
    assert (found.code, found.message) == ("PT0410", message)


def test_several_files_are_read_one_after_the_other(tmp_path: Path):
    files = {"b.jsonl": to_jsonl([{"n": 1}]), "a.csv": b"n\n2\n", "c.json": b'[{"n": 3}]'}
    assert build_from_files(tmp_path, files).rows("it") == [{"n": 1}, {"n": 2}, {"n": 3}]


INVALID_FILES: dict[str, tuple[bytes, Any, str]] = {
    "a line that is cut": (b'{"a": 1}\n{"a"', None, "rows.jsonl:2 is not valid JSON"),
    "a line that is no object": (b"[1]\n", None, "rows.jsonl:1 is not a JSON object"),
    "no rows": (b"\n", None, "the files have no rows"),
    "not UTF-8": (b'{"a": "\xff"}', None, "rows.jsonl:1 is not valid UTF-8 at byte 7"),
    "a column that is not there": (
        b'{"answer": "a"}',
        {"anser": "text"},
        "missing column `anser`; the rows have answer",
    ),
    "a number for an integer": (
        b'{"a": 1}\n{"a": 1.5}',
        {"a": "integer"},
        "`a` is declared as integer but contains number",
    ),
    "text for a number": (b'{"a": "1"}', {"a": "number"}, "`a` is declared as number but contains text"),
    "a type that is none": (b'{"a": 1}', {"a": "string"}, "`string` is not a column type (column `a`)"),
}


@pytest.mark.parametrize("case", INVALID_FILES)
def test_rows_that_do_not_fit_are_told_when_the_recipe_is_compiled(case: str):
    data, columns, message = INVALID_FILES[case]
    source = {"path": "rows.jsonl", **({"columns": columns} if columns else {})}
    (found,) = compile_datasets({"it": {"from": {"files": source}}}, {"rows.jsonl": data}).diagnostics
    assert message in found.message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,a\n1,2\n", "duplicate column `a` in `rows.csv`"),
        (b"a,b\n1\n", "rows.csv:2 has 1 field, but the header has 2"),
        (b"", "the files have no rows"),
    ],
)
def test_csv_that_is_none_is_told_when_the_recipe_is_compiled(data: bytes, message: str):
    (found,) = compile_datasets({"it": {"from": {"files": "rows.csv"}}}, {"rows.csv": data}).diagnostics
    assert message in found.message


def test_what_looks_like_a_number_in_csv_may_be_kept_as_text(tmp_path: Path):
    found = build_from_files(tmp_path, {"rows.csv": b"a,b\n1.50,2\n"}, columns={"a": "text", "b": "number"})
    assert found.rows("it") == [{"a": "1.50", "b": 2.0}]


def test_a_large_file_is_held_to_its_columns_when_it_is_read(tmp_path: Path):
    rows = b'{"a": "x"}\n' * 800_000 + b'{"a": ["y"]}\n'
    source = {"it": {"from": {"files": "rows.jsonl"}}}
    (found,) = compile_datasets(source, {"rows.jsonl": rows}).diagnostics
    assert "add `columns`" in found.message
    with pytest.raises(
        StepError, match=r"row 800001: the column `a` is declared as text but contains \[\"y\"\]"
    ):
        build_from_files(tmp_path, {"rows.jsonl": rows}, columns={"a": "text"})


def test_a_misspelt_column_of_a_large_file_ends_the_step(tmp_path: Path):
    with pytest.raises(StepError, match="the column `b` is null in every row"):
        build_from_files(
            tmp_path, {"rows.jsonl": b'{"a": "x"}\n' * 800_000}, columns={"a": "text", "b": "text"}
        )


def test_a_compressed_bomb_costs_the_compiler_nothing():
    bomb = gzip.compress(b"0" * 300_000_000, compresslevel=1)
    (found,) = compile_datasets(
        {"it": {"from": {"files": "rows.jsonl.gz"}}}, {"rows.jsonl.gz": bomb}
    ).diagnostics
    assert "cannot infer the columns of `rows.jsonl.gz`" in found.message


def test_the_number_of_rows_of_a_file_is_known_when_the_recipe_is_compiled():
    files = {"rows.jsonl": to_jsonl([{"a": n} for n in range(5)])}
    split = {"it": {"from": {"files": "rows.jsonl"}, "steps": [{"split": {"test": 6}}]}}
    assert [d.code for d in compile_datasets(split, files).diagnostics] == ["PT0406"]


def test_rows_of_the_recipe_itself(tmp_path: Path):
    rows = [{"a": "x", "n": 1, "turns": [{"role": "user", "content": "hi"}]}, {"a": None, "n": 2}]
    found = build_dataset(tmp_path, rows=rows)
    assert found.rows("it") == [rows[0], {**rows[1], "turns": None}]
    assert found.columns("it") == {"a": "text", "n": "integer", "turns": "messages"}
    typed = {"it": {"from": {"rows": {"rows": [{"a": 1}], "columns": {"a": "number"}}}}}
    assert plan_datasets(typed).step("datasets.it").params["columns"] == {"a": "number"}
    wrong = {"it": {"from": {"rows": {"rows": [{"a": "x"}], "columns": {"a": "number"}}}}}
    assert "declared as number but contains text" in compile_datasets(wrong).diagnostics[0].message


WORDS = st.lists(st.sampled_from(["One.", "two", "three!", "f" * 30, "\n", "\n\n", " "]), max_size=60).map(
    " ".join
)


@given(WORDS, st.sampled_from(["paragraphs", "characters"]), st.integers(20, 80))
def test_passages_hold_every_word_in_order_and_are_never_too_long(
    text: str, split_by: Any, max_characters: int
):
    found = list(split_passages(text, Text(path=["a.txt"], split_by=split_by, max_characters=max_characters)))
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(len(passage) <= max_characters and passage == passage.strip() and passage for passage in found)


def test_a_book_becomes_passages(tmp_path: Path):
    book = "Chapter one.\n\n" + "It was a dark night. " * 8 + "\n\n\nThe end.\n"
    files = {"books/night.txt": book.encode(), "other.txt": b"\xef\xbb\xbfShort."}
    source = {"path": list(files), "max_characters": 110, "min_characters": 7}
    found = BuiltDatasets(tmp_path, {"it": {"from": {"text": source}}}, files)
    rows = found.rows("it")
    assert [(row["source"], row["number"]) for row in rows] == [("night", 1), ("night", 2), ("night", 3)]
    assert rows[0]["passage"] == "Chapter one."
    assert rows[1]["passage"].endswith("night.")
    assert rows[2]["passage"].endswith("night.\n\nThe end.")
    whole = BuiltDatasets(
        Path(tempfile.mkdtemp(dir=tmp_path)),
        {"it": {"from": {"text": {"path": "other.txt", "split_by": "file"}}}},
        files,
    )
    assert [row["passage"] for row in whole.rows("it")] == ["Short."]


def test_a_dataset_of_the_hub_is_pinned_by_a_commit_only():
    def step(revision: str) -> Any:
        source = {"hub": {"name": "org/name", "revision": revision, "columns": {"a": "text"}}}
        return plan_datasets({"it": {"from": source}}).step("datasets.it")

    assert step("0123456789abcdef" * 2 + "01234567").pinned
    assert not step("main").pinned
    assert step("main").resources.network
    assert not plan_datasets({"it": {"from": {"rows": [{"a": 1}]}}}).step("datasets.it").resources.network


def test_a_column_that_is_null_throughout_ends_nothing_when_nobody_declared_it(tmp_path: Path):
    rows = [{"prompt": "a", "note": None}, {"prompt": "b", "note": None}]
    assert build_from_files(tmp_path, {"rows.jsonl": to_jsonl(rows)}).rows("it") == rows


def test_a_column_that_one_of_several_files_lacks_is_null_there(tmp_path: Path):
    files = {"a.jsonl": to_jsonl([{"x": 1}]), "b.jsonl": to_jsonl([{"x": 2, "y": "b"}])}
    found = build_from_files(tmp_path, files, columns={"x": "integer", "y": "text"})
    assert found.rows("it") == [{"x": 1, "y": None}, {"x": 2, "y": "b"}]
