"""A field of a message that would be lost is an error, in every source and step, in every row."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest
from tests.runtime.data.build_datasets import BuiltDatasets, compile_datasets

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.errors import StepError
from posttrain.runtime.prompts import build_prompts
from posttrain.runtime.training.validate_rows import validate_rows
from posttrain.spec.extension import Method
from posttrain.spec.message_fields import lost_field
from posttrain.spec.sql_types import column_type

CALL = [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]
PLAIN = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
FIELDS: dict[str, Any] = {
    "citations": CALL,
    "thinking": "because",
    "trainable": False,
    "images": ["a.png"],
    "anything/at~all": True,
}
SOURCE = {"columns": {"messages": "messages"}}


def turns(field: str, value: Any) -> list[dict[str, Any]]:
    return [PLAIN[0], {**PLAIN[1], field: value}]


def build(
    folder: Path,
    name: str,
    rows: list[Any],
    *steps: Any,
    type: str = "messages",
    plain: Sequence[Any] = (PLAIN, PLAIN),
) -> BuiltDatasets:
    """The dataset of a file that the compiler does not read, and of plain rows before these."""
    folder.mkdir(parents=True, exist_ok=True)
    every = [{"messages": row} for row in (*plain, *rows)]
    if name.endswith(".parquet"):
        parquet.write_table(pyarrow.Table.from_pylist(every), folder / name)
        data = (folder / name).read_bytes()
    else:
        text = "".join(json.dumps(row) + "\n" for row in every).encode()
        data = pyarrow.Codec("zstd").compress(text, asbytes=True)
    source = {"files": {"path": name, "columns": {"messages": type}}}
    return BuiltDatasets(folder / "out", {"it": {"from": source, "steps": list(steps)}}, {name: data})


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl.zst"])
@pytest.mark.parametrize("field", FIELDS)
def test_a_source_reports_the_field_with_its_row(tmp_path: Path, name: str, field: str) -> None:
    with pytest.raises(StepError) as caught:
        build(tmp_path, name, [turns(field, FIELDS[field])])
    assert str(caught.value).startswith(f"row 3, `messages`, turn 2: a turn has the field `{field}`")
    assert "which would be lost" in str(caught.value)
    assert "ignored_keys" in caught.value.advice


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl.zst"])
@pytest.mark.parametrize("value", [None, "", []])
def test_a_field_without_a_value_loses_nothing(tmp_path: Path, name: str, value: Any) -> None:
    assert build(tmp_path, name, [turns("images", value)]).rows("it")[2] == {"messages": PLAIN}


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl.zst"])
def test_the_step_conversations_reports_the_field_or_ignores_it_by_name(tmp_path: Path, name: str) -> None:
    rows = [turns("citations", CALL)]
    convert = {"column": "messages", "role_key": "role", "content_key": "content", "output_column": "m"}
    with pytest.raises(StepError, match=r"row 3: .* `citations` \(the documents") as caught:
        build(tmp_path / "a", name, rows, {"conversations": convert}, type="any")
    assert "add the key to `ignored_keys`" in caught.value.advice
    ignoring = {"conversations": {**convert, "ignored_keys": ["citations"]}}
    assert build(tmp_path / "b", name, rows, ignoring, type="any").rows("it")[2]["m"] == PLAIN


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl.zst"])
def test_content_of_several_parts_is_not_turned_into_text(tmp_path: Path, name: str) -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    convert = {"column": "messages", "role_key": "role", "content_key": "content", "output_column": "m"}
    with pytest.raises(StepError, match=r"declared as messages but contains|has type list<any>"):
        build(tmp_path / "a", name, [parts], plain=[])
    with pytest.raises(StepError, match="row 1: cannot convert a turn"):
        build(tmp_path / "b", name, [parts], {"conversations": convert}, type="any", plain=[])


def test_the_compiler_reports_fields_that_it_reads() -> None:
    rows = [{"conversations": PLAIN}, {"conversations": turns("citations", CALL)}]
    convert = {"conversations": {"role_key": "role", "content_key": "content"}}
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    for source in ({"rows": rows}, {"files": "rows.jsonl"}):
        dataset = {"it": {"from": source, "steps": [convert]}}
        (found,) = compile_datasets(dataset, {"rows.jsonl": data}).diagnostics
        assert (found.code, "`citations` (the documents of the turn)" in found.message) == ("PT0407", True)
        assert found.message.startswith(("row 2", "rows.jsonl:2"))


def test_sql_that_makes_turns_with_more_fields_makes_no_messages() -> None:
    steps = [{"derive": {"messages": "[{'role': 'user', 'content': a, 'image': 'x'}]"}}, {"last_turn": {}}]
    dataset = {"it": {"from": {"rows": [{"a": "b"}]}, "steps": steps}}
    (found,) = compile_datasets(dataset).diagnostics
    assert "`messages` has type list<any>; expected messages" in found.message


@pytest.mark.parametrize(
    ("sql", "type"),
    [
        ('STRUCT("role" VARCHAR, "content" VARCHAR)[]', "messages"),
        ('STRUCT("content" VARCHAR, "role" VARCHAR)[]', "messages"),
        ('STRUCT("role" VARCHAR, "content" VARCHAR, "name" VARCHAR)[]', "messages"),
        ('STRUCT("role" VARCHAR, "content" VARCHAR, weight DECIMAL(2,1))[]', "messages"),
        ('STRUCT("role" VARCHAR, "content" VARCHAR, "name" INTEGER)[]', "list<any>"),
        ('STRUCT("role" VARCHAR, "content" VARCHAR, tool_calls VARCHAR[])[]', "list<any>"),
        ('STRUCT("role" VARCHAR, "content" VARCHAR, "image" VARCHAR)[]', "list<any>"),
        ('STRUCT("role" VARCHAR, "content" STRUCT("type" VARCHAR, "text" VARCHAR)[])[]', "list<any>"),
        ('STRUCT("a, ""role"" VARCHAR" VARCHAR, "content" VARCHAR)[]', "list<any>"),
        ('STRUCT("role" VARCHAR, "content" VARCHAR)', "any"),
    ],
)
def test_only_text_with_a_role_is_a_message(sql: str, type: str) -> None:
    assert column_type(sql) == type


def test_rows_are_checked_again_before_training_and_generation() -> None:
    rows = [{"messages": PLAIN}, {"messages": turns("images", CALL)}]
    sft = CATALOG.find("method", "sft")
    assert isinstance(sft, Method)
    with pytest.raises(StepError, match=r"row 2: .*images"):
        validate_rows(rows, {"messages": "messages"}, sft, template=True)

    context: Any = SimpleNamespace(
        params=SimpleNamespace(prompts="auto", few_shot=None, chat_template_kwargs={}), files={}
    )
    model: Any = type("Model", (), {"chat_template": "{{ messages }}"})
    with pytest.raises(StepError, match=r"row 2: .*images"):
        build_prompts(context, model, [{"prompt": row["messages"]} for row in rows])


@pytest.mark.parametrize("value", [0, False, [None], {"a": None}, " "])
def test_a_value_that_is_false_is_a_value(value: Any) -> None:
    assert lost_field({"role": "user", "content": "a", "trainable": value}) == "trainable"
