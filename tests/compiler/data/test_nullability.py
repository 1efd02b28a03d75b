"""Tests that null values in required columns are reported before the run, as far as rows are checked."""

import gzip
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.sources.parquet_footer import read_footer
from posttrain.spec.diagnostic import Diagnostic

_SOURCE, _STEPS = "{arithmetic: {digits: 2, count: 200}}", "- split: {test: 100}"
_ROW = {"prompt": "1+1", "completion": "2", "answer": "2"}


def null_diagnostics(source: str, steps: str, files: Mapping[str, bytes]) -> list[Diagnostic]:
    text = minimal_recipe((_SOURCE, source), (_STEPS, steps))
    request = CompileRequest(source=SourceFile("recipe.yaml", text.encode()), catalog=CATALOG, read=files.get)
    return list(compile_recipe(request).diagnostics)


def jsonl(*changes: Mapping[str, Any]) -> bytes:
    return "".join(json.dumps({**_ROW, **change}) + "\n" for change in changes).encode()


ROWS_WITH_NULLS = jsonl({}, {}, {"completion": None}, {"completion": None}, {})
UNCERTAIN_MESSAGE = "the stage fails if it reads such a row"


def nulls_reported(steps: str, rows: bytes = ROWS_WITH_NULLS) -> list[tuple[str, bool]]:
    found = null_diagnostics("{files: rows.jsonl}", steps, {"rows.jsonl": rows})
    assert {d.code for d in found} <= {"PT0411"}, found
    return [(d.severity, UNCERTAIN_MESSAGE in d.message) for d in found]


def test_the_message_says_where_how_many_and_what_to_do() -> None:
    (found,) = null_diagnostics("{files: rows.jsonl}", "- split: {test: 1}", {"rows.jsonl": ROWS_WITH_NULLS})
    assert found.code == "PT0411"
    assert found.span.line == 17
    assert found.message == (
        "2 of the 5 checked rows have a null or empty value in `completion`, which `sft` reads; the first is"
        " rows.jsonl:3"
    )
    assert "where: completion IS NOT NULL" in found.help


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("- split: {test: 1}", [("error", False)]),
        # Both rows may be in the part `test`.
        ("- split: {test: 2}", [("warning", True)]),
        ("- where: completion IS NOT NULL\n      - split: {test: 1}", []),
        ("- where: length(prompt) > 2\n      - split: {test: 1}", [("warning", True)]),
        ("- dedup: [prompt, completion]\n      - split: {test: 1}", [("warning", True)]),
        ("- derive: {completion: \"coalesce(completion, '')\"}\n      - split: {test: 1}", []),
        ("- derive: {completion: answer}\n      - split: {test: 1}", []),
        ("- sort: prompt desc\n      - split: {test: 1}", [("error", False)]),
        (
            "- rename: {completion: said}\n      - derive: {completion: said}\n      - split: {test: 1}",
            [("error", False)],
        ),
        ("- sample: 4\n      - split: {test: 1}", [("warning", True)]),
    ],
)
def test_steps_decide_what_is_known(steps: str, expected: list[tuple[str, bool]]) -> None:
    assert nulls_reported(steps) == expected


def test_an_eval_needs_every_prompt() -> None:
    rows = jsonl(*[{"prompt": None}] * 3, {}, {})
    found = null_diagnostics("{files: rows.jsonl}", "- split: {test: 2}", {"rows.jsonl": rows})
    assert [(d.span.line, d.severity) for d in found] == [(17, "error"), (18, "warning")]


def test_a_reward_without_its_reference_is_a_warning_unless_it_asks_whether_there_is_one() -> None:
    rows = jsonl({}, {"answer": None}, {}, {}, {})
    found = null_diagnostics("{files: rows.jsonl}", "- split: {test: 2}", {"rows.jsonl": rows})
    assert [(d.code, d.severity) for d in found] == [("PT0411", "warning")]
    assert "the reward `right` reads; the first is rows.jsonl:2" in found[0].message
    text = minimal_recipe((_SOURCE, "{files: rows.jsonl}"), (_STEPS, "- split: {test: 2}")).replace(
        "{math_equal: {of: completion, to: answer}}", "{present: answer}"
    )
    request = CompileRequest(
        source=SourceFile("r.yaml", text.encode()), catalog=CATALOG, read={"rows.jsonl": rows}.get
    )
    assert "PT0411" not in {d.code for d in compile_recipe(request).diagnostics}


def csv_with(*, holes: int) -> bytes:
    cells = ['"a cell\nof two lines",two,two\n'] * 2 + ["1+1,,two\n"] * holes
    return ("prompt,completion,answer\n" + "".join(cells)).encode()


@pytest.mark.parametrize(
    ("name", "data", "place"),
    [
        ("rows.csv", csv_with(holes=3), "rows.csv:6"),
        ("rows.json", json.dumps([_ROW, *[{**_ROW, "completion": None}] * 2]).encode(), "rows.json: row 2"),
        ("rows.jsonl.gz", gzip.compress(ROWS_WITH_NULLS, mtime=0), "rows.jsonl.gz:3"),
        ("rows.jsonl", b"\n" + ROWS_WITH_NULLS.replace(b'"completion": null, ', b""), "rows.jsonl:4"),
    ],
)
def test_every_format_that_is_looked_through_says_the_place(name: str, data: bytes, place: str) -> None:
    (found,) = null_diagnostics(f"{{files: {name}}}", "- split: {test: 1}", {name: data})
    assert found.message.endswith(f"the first is {place}")


def test_rows_in_the_recipe_are_looked_through() -> None:
    rows = [_ROW, {**_ROW, "completion": None}, {**_ROW, "completion": None}]
    (found,) = null_diagnostics(f"{{rows: {json.dumps(rows)}}}", "- split: {test: 1}", {})
    assert found.message.endswith("the first is row 2")


TYPED = "columns: {prompt: text, completion: text, answer: text}"


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_of_a_large_file_the_beginning_is_looked_at_and_no_more_is_claimed(ending: str) -> None:
    filling = "x" * 200
    if ending == "csv":
        whole, hole = f'"{filling}\n",two,two\n', f"{filling},,two\n"
        data = "prompt,completion,answer\n" + whole * 50 + hole + whole * 50_000
    else:
        whole = json.dumps({**_ROW, "prompt": filling}) + "\n"
        data = whole * 50 + json.dumps({**_ROW, "completion": None}) + "\n" + whole * 50_000
    name = f"rows.{ending}"
    (found,) = null_diagnostics(
        f"{{files: {{path: {name}, {TYPED}}}}}", "- split: {test: 1}", {name: data.encode()}
    )
    assert found.severity == "warning"
    looked = int(found.message.split()[3])
    assert 1000 < looked < 10_000
    assert found.message.startswith("1 of the ")


def test_what_is_not_looked_through_is_not_spoken_of() -> None:
    for name in ("rows.parquet", "rows.jsonl.zst"):
        source = f"{{files: {{path: {name}, {TYPED}}}}}"
        assert null_diagnostics(source, "- split: {test: 1}", {name: b"not looked at"}) == []


def parquet(rows: list[dict[str, Any]], group: int = 1000, **options: Any) -> bytes:
    import io

    import pyarrow
    import pyarrow.parquet

    sink = io.BytesIO()
    table = pyarrow.Table.from_pylist(rows, pyarrow.schema([(name, pyarrow.string()) for name in _ROW]))
    tags = pyarrow.array([["a", None]] * len(rows), pyarrow.list_(pyarrow.string()))
    pyarrow.parquet.write_table(table.add_column(0, "tags", tags), sink, row_group_size=group, **options)
    return sink.getvalue()


@pytest.mark.parametrize(
    "options",
    [{}, {"compression": "zstd"}, {"use_dictionary": False, "version": "1.0"}, {"data_page_version": "2.0"}],
)
def test_parquet_counts_its_nulls_itself(options: dict[str, Any]) -> None:
    rows = [{**_ROW, "completion": None if place in (120, 121, 250) else "2"} for place in range(300)]
    source = f"{{files: {{path: rows.parquet, {TYPED}}}}}"
    found = null_diagnostics(source, "- sort: prompt", {"rows.parquet": parquet(rows, 100, **options)})
    assert [d.code for d in found if d.code != "PT0405"] == ["PT0411"]
    (reported,) = [d for d in found if d.code == "PT0411"]
    assert reported.message.startswith("3 of the 300 checked rows have a null or empty value in `completion`")
    assert reported.message.partition(": ")[0].endswith(
        "the first is among the rows 101 to 200 of rows.parquet"
    )


def test_a_column_that_parquet_does_not_have_is_told() -> None:
    source = "{files: {path: rows.parquet, columns: {prompt: text, reply: text}}}"
    (found,) = null_diagnostics(source, "- split: {test: 1}", {"rows.parquet": parquet([dict(_ROW)] * 5)})
    assert (found.code, found.message) == (
        "PT0410",
        "missing column `reply` in `rows.parquet`; its columns are tags, prompt, completion, answer",
    )


@given(st.data())
def test_a_damaged_footer_tells_nothing_and_breaks_nothing(data: st.DataObject) -> None:
    whole = bytearray(parquet([dict(_ROW)] * 3))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(4, len(whole) - 5))] = data.draw(st.integers(0, 255))
    read_footer(bytes(whole))
    read_footer(bytes(whole[: data.draw(st.integers(0, len(whole)))]) + b"PAR1")


def test_a_declared_column_that_no_row_has_is_told_as_reading_would() -> None:
    rows = jsonl(*[{"completion": None}] * 3)
    found = null_diagnostics(
        f"{{files: {{path: rows.jsonl, {TYPED}}}}}", "- split: {test: 1}", {"rows.jsonl": rows}
    )
    assert [d.code for d in found] == ["PT0410"]
    assert "the column `completion` is null in every row" in found[0].message
