"""Messages with tool calls: read from every source, preserved by data steps, converted from other formats."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest
from tests.runtime.data.build_datasets import BuiltDatasets, compile_datasets

from posttrain.runtime.errors import StepError
from posttrain.runtime.rows_io import read_rows, write_rows
from posttrain.spec.messages import load_message, parse_message, parse_tools, stored_message

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}


def call(arguments: Any, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "add", "arguments": arguments}, **more}


def talk(number: int) -> list[dict[str, Any]]:
    """A conversation as templates read it. Calls of odd rows have other arguments than those of even rows."""
    arguments = {"a": number, "b": [1.5, None]} if number % 2 else {"text": "x\n", "deep": {"k": number}}
    return [
        {"role": "user", "content": f"question {number}"},
        {
            "role": "assistant",
            "reasoning_content": "use a tool",
            "tool_calls": [{"id": f"c{number}", **call(arguments)}],
            "weight": 0.0,
        },
        {"role": "tool", "content": str(number), "tool_call_id": f"c{number}", "name": "add"},
        {"role": "assistant", "content": f"answer {number}"},
    ]


def as_openai(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The turns with arguments as JSON text, null content, and `train` instead of a weight."""
    found: list[dict[str, Any]] = []
    for turn in turns:
        one = dict(turn)
        if "tool_calls" in one:
            ((each,),) = (one["tool_calls"],)
            function = {**each["function"], "arguments": json.dumps(each["function"]["arguments"])}
            one |= {"content": None, "tool_calls": [{**each, "function": function}], "train": False}
            del one["weight"]
        found.append(one)
    return found


TALKS = [talk(number) for number in range(12)]
ROWS = [{"messages": as_openai(turns), "tools": json.dumps([TOOL]), "n": n} for n, turns in enumerate(TALKS)]


def build(folder: Path, rows: list[dict[str, Any]], *steps: Any, **more: Any) -> BuiltDatasets:
    return BuiltDatasets(folder, {"it": {"from": {"rows": rows}, "steps": list(steps)}, **more})


def turns_of(built: BuiltDatasets, column: str = "messages") -> list[Any]:
    return [row[column] for row in built.rows("it")]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl", "typed.parquet", "rows.csv"])
def test_every_source_reads_tool_calls(tmp_path: Path, name: str) -> None:
    typed = name == "typed.parquet"  # arguments are a struct, with nulls for those of other rows
    talks = [[one for one in turns if one.get("weight") != 0] if typed else turns for turns in TALKS]
    rows: list[dict[str, Any]] = [{"messages": as_openai(turns)} for turns in talks]
    if typed:
        for number, row in enumerate(rows):
            arguments = {"a": number} if number % 2 else {"b": "x"}
            row["messages"].insert(1, {"role": "assistant", "content": None, "tool_calls": [call(arguments)]})
            talks[number].insert(1, {"role": "assistant", "tool_calls": [call(arguments)]})
    if name.endswith(".parquet"):
        parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / name)
        data = (tmp_path / name).read_bytes()
    elif name.endswith(".csv"):
        cells = [json.dumps(row["messages"]).replace('"', '""') for row in rows]
        data = ("messages\n" + "".join(f'"{cell}"\n' for cell in cells)).encode()
    else:
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    source = {"files": {"path": name, "columns": {"messages": "messages"}}}
    built = BuiltDatasets(tmp_path / "out", {"it": {"from": source}}, {name: data})
    assert turns_of(built) == talks


@pytest.mark.parametrize("type", ["any", "list<any>", "text"])
def test_tools_in_a_typed_column_have_no_parameters_of_other_tools(tmp_path: Path, type: str) -> None:
    """A column of structs has every field of every row, with nulls."""
    tools = [
        {
            "type": "function",
            "function": {"name": name, "parameters": {"properties": {key: {"type": "string"}}}},
        }
        for name, key in (("find", "query"), ("open", "path"))
    ]
    rows = [{"n": n, "tools": [tool]} for n, tool in enumerate(tools)]
    parquet.write_table(pyarrow.Table.from_pylist([*rows, {"n": 2, "tools": None}]), tmp_path / "t.parquet")
    source = {"files": {"path": "t.parquet", "columns": {"n": "integer", "tools": type}}}
    files = {"t.parquet": (tmp_path / "t.parquet").read_bytes()}
    built = BuiltDatasets(tmp_path / "out", {"it": {"from": source}}, files)
    found = [parse_tools(row["tools"]) for row in built.rows("it")]
    assert found == [[tools[0]], [tools[1]], None]


SAME_ROWS = {
    "where": {"where": "n >= 0"},
    "where on a call": {"where": "messages[2].tool_calls[1].function.name = 'add'"},
    "derive": {"derive": {"m": "n + 1"}},
    "sort": {"sort": "n"},
    "select": {"select": ["messages", "tools", "n"]},
    "dedup": {"dedup": "messages"},
    "near_duplicates": {"near_duplicates": {"columns": "messages", "similarity_threshold": 1.0}},
    "max_length": {"max_length": {"columns": "messages", "max_length": 1000}},
    "copy": {"derive": {"messages": "list_filter(messages, lambda turn: turn.role IS NOT NULL)"}},
}


@pytest.mark.parametrize("name", SAME_ROWS)
def test_data_steps_preserve_the_fields_of_turns(tmp_path: Path, name: str) -> None:
    built = build(tmp_path, ROWS, SAME_ROWS[name])
    assert turns_of(built) == TALKS
    assert [parse_tools(row["tools"]) for row in built.rows("it")] == [[TOOL]] * len(TALKS)


def test_random_steps_and_splits_preserve_the_fields_of_turns(tmp_path: Path) -> None:
    built = build(tmp_path, ROWS, {"sample": 1.0}, {"split": {"test": 3}})
    found = [row for part in built.parts("it") for row in built.rows("it", part)]
    assert sorted(row["n"] for row in found) == list(range(len(TALKS)))
    assert all(row["messages"] == TALKS[row["n"]] for row in found)


def test_a_mix_with_plain_messages_preserves_the_fields_of_turns(tmp_path: Path) -> None:
    plain = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    made = {
        "derive": {"messages": "[{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]"}
    }
    other = {"from": {"rows": [{"n": 99, "tools": None}, {"n": 98, "tools": "[]"}]}, "steps": [made]}
    built = build(tmp_path, ROWS, {"mix": {"other": 1.0}}, {"sort": "n"}, other=other)
    assert turns_of(built) == [*TALKS, plain, plain]


def test_last_turn_and_pairs_preserve_the_fields_of_turns(tmp_path: Path) -> None:
    built = build(tmp_path, ROWS, {"last_turn": {}})
    assert turns_of(built, "prompt") == [turns[:-1] for turns in TALKS]
    assert turns_of(built, "completion") == [turns[-1:] for turns in TALKS]


def test_rows_that_differ_in_a_call_are_no_duplicates(tmp_path: Path) -> None:
    rows = [
        {
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "tool_calls": [call({"a": n})]},
            ]
        }
        for n in (1, 2, 1)
    ]
    built = build(tmp_path, rows, {"near_duplicates": {"columns": "messages", "similarity_threshold": 1.0}})
    assert len(built.rows("it")) == 2


def test_tables_of_steps_store_and_load_the_same_turns(tmp_path: Path) -> None:
    rows = [{"prompt": turns, "n": n} for n, turns in enumerate(TALKS)]
    write_rows(tmp_path / "a.parquet", [*rows, {"prompt": None, "n": -1}])
    (tmp_path / "parts.txt").write_text("a\n")
    assert read_rows(tmp_path) == [*rows, {"prompt": None, "n": -1}]


SHAREGPT = [
    {"from": "human", "value": "1+1?"},
    {"from": "function_call", "value": '{"name": "add", "arguments": {"a": 1, "b": 1}}'},
    {"from": "observation", "value": "2"},
    {"from": "gpt", "value": "It is 2."},
]
HERMES = [
    {
        "from": "system",
        "value": f"Functions within <tools></tools>:\n<tools>\n{json.dumps([TOOL])}\n</tools>",
    },
    {"from": "human", "value": "1+1?"},
    {"from": "gpt", "value": '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 1}}\n</tool_call>'},
    {"from": "tool", "value": "<tool_response>\n2\n</tool_response>"},
    {"from": "gpt", "value": "It is 2."},
]
OPENAI = [
    {"role": "user", "content": "1+1?"},
    {"role": "assistant", "content": None, "tool_calls": [call('{"a": 1, "b": 1}')]},
    {"role": "tool", "content": "2"},
    {"role": "assistant", "content": "It is 2."},
]
CANONICAL = [OPENAI[0], {"role": "assistant", "tool_calls": [call({"a": 1, "b": 1})]}, *OPENAI[2:]]
NAMED = {"role_key": "role", "content_key": "content"}
CALLED = {"name": "add", "arguments": {"a": 1, "b": 1}}
FORMATS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "sharegpt": (SHAREGPT, {}),
    "hermes": (HERMES, {"tagged_calls": True}),
    "openai": (OPENAI, NAMED),
    "arguments as an object": (CANONICAL, NAMED),
    "function_call": (
        [OPENAI[0], {"role": "assistant", "function_call": CALLED}, *OPENAI[2:]],
        NAMED,
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_become_the_same_messages(tmp_path: Path, name: str) -> None:
    turns, options = FORMATS[name]
    rows = [{"conversations": turns}]
    built = build(tmp_path, rows, {"conversations": {"column": "conversations", **options}})
    (row,) = built.rows("it")
    assert row["messages"] == CANONICAL
    if name == "hermes":
        assert parse_tools(row["tools"]) == [TOOL]


def test_several_calls_and_results_of_hermes_keep_their_order(tmp_path: Path) -> None:
    one, two = (json.dumps({"name": "add", "arguments": {"a": number}}) for number in (1, 2))
    turns = [
        {"from": "human", "value": "go"},
        {"from": "gpt", "value": f"Both.\n<tool_call>{one}</tool_call>\n<tool_call>{two}</tool_call>"},
        {"from": "tool", "value": "<tool_response>x</tool_response>\n<tool_response>y</tool_response>"},
    ]
    built = build(tmp_path, [{"conversations": turns}], {"conversations": {"tagged_calls": True}})
    assert turns_of(built)[0][1:] == [
        {"role": "assistant", "content": "Both.", "tool_calls": [call({"a": 1}), call({"a": 2})]},
        {"role": "tool", "content": "x"},
        {"role": "tool", "content": "y"},
    ]


def test_other_keys_can_be_mapped_to_fields(tmp_path: Path) -> None:
    turns = [
        {"from": "human", "value": "go"},
        {"from": "gpt", "value": "done", "thinking": "hm", "learn": False, "name": "bot"},
    ]
    names = {"thinking": "reasoning_content", "learn": "train"}
    built = build(tmp_path, [{"conversations": turns}], {"conversations": {"field_names": names}})
    assert turns_of(built)[0][1] == {
        "role": "assistant",
        "content": "done",
        "reasoning_content": "hm",
        "name": "bot",
        "weight": 0.0,
    }


MALFORMED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "arguments that are no JSON": (
        {"from": "function_call", "value": '{"name": "add", "arguments": "{a: 1"}'},
        {},
        "arguments of the call of `add` are not valid JSON",
    ),
    "arguments that are a list": (
        {"from": "function_call", "value": '{"name": "add", "arguments": [1]}'},
        {},
        "arguments of the call of `add` are not an object",
    ),
    "a call without a name": ({"from": "function_call", "value": '{"arguments": {}}'}, {}, "has no `name`"),
    "a call that is no JSON": ({"from": "function_call", "value": "add(1)"}, {}, "not valid JSON"),
    "unbalanced tags": (
        {"from": "gpt", "value": '<tool_call>{"name": "add"}'},
        {"tagged_calls": True},
        "<tool_call> and </tool_call> are not balanced",
    ),
    "a call of the user": (
        {"from": "human", "value": "x", "tool_calls": [call({})]},
        {},
        "only the assistant calls tools",
    ),
    "a weight that is text": ({"from": "gpt", "value": "x", "weight": "half"}, {}, "`weight` of a turn"),
    "a call with more keys": (
        {"from": "gpt", "value": "", "tool_calls": [{"name": "add", "arguments": {}, "result": 3}]},
        {},
        "has the field `result`, which would be lost",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_calls_are_errors_with_their_row_and_cause(tmp_path: Path, name: str) -> None:
    turn, options, cause = MALFORMED[name]
    rows = [{"conversations": SHAREGPT}, {"conversations": [SHAREGPT[0], turn]}]
    with pytest.raises(StepError) as caught:
        build(tmp_path, rows, {"conversations": {"column": "conversations", **options}})
    assert str(caught.value).startswith("row 2, `conversations`, turn 2: ")
    assert cause in str(caught.value)
    assert caught.value.advice


def test_the_compiler_reports_a_malformed_call_of_declared_messages() -> None:
    rows = [{"messages": OPENAI}, {"messages": [OPENAI[0], {**OPENAI[1], "tool_calls": [call("{")]}]}]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    source = {"files": {"path": "rows.jsonl", "columns": {"messages": "messages"}}}
    (found,) = compile_datasets({"it": {"from": source}}, {"rows.jsonl": data}).diagnostics
    assert "rows.jsonl:2, `messages`, turn 2: the arguments of the call of `add`" in found.message


@pytest.mark.parametrize("turn", [turn for turns in TALKS[:2] for turn in as_openai(turns)])
def test_a_stored_message_loads_as_it_was(turn: dict[str, Any]) -> None:
    message = parse_message(turn)
    assert parse_message(load_message(stored_message(message))) == message


def test_a_bare_tool_is_wrapped_and_other_tools_are_kept() -> None:
    assert parse_tools([TOOL["function"]]) == parse_tools([TOOL]) == parse_tools([json.dumps(TOOL)]) == [TOOL]
    assert parse_tools("[]") is parse_tools(None) is None
    with pytest.raises(ValueError, match="has no `name`"):
        parse_tools([{"type": "function", "function": {}}])
