"""Random conversations with tools in the formats of other tools, read by a parser of its own."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.data.build_datasets import BuiltDatasets

COUNT = 200
TEXTS = (
    *(
        "plain",
        "two\nlines",
        "  spaced  ",
        "ünï 😀 \u2028",
        'quote " and \\ back',
        "{not json",
        "[1, 2",
        "{}",
    ),
    *("a < b > c", "{{ jinja }} {% raw %}", "null", "0", "<think>\nx\n</think>\n\ny", "\t"),
)
NAMES = ("add", "get_weather", "a.b-c", "ünï")


def value(drawn: random.Random, depth: int = 2) -> Any:
    scalars: list[Any] = [None, True, False, 0, -7, 2.5, 1e-9, 10**15, "", drawn.choice(TEXTS)]
    if depth and drawn.random() < 0.4:
        items = [value(drawn, depth - 1) for _ in range(drawn.randint(0, 3))]
        return items if drawn.random() < 0.5 else {f"k{n} '": item for n, item in enumerate(items)}
    return drawn.choice(scalars)


def calls(drawn: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "name": drawn.choice(NAMES),
            "arguments": {f"p{n}": value(drawn) for n in range(drawn.randint(0, 3))},
        }
        for _ in range(drawn.choice([1, 1, 2, 3]))
    ]


def talk(drawn: random.Random) -> list[tuple[str, Any]]:
    """Turns as pairs: a role with a text, calls with the text before them, or the results of calls."""
    turns: list[tuple[str, Any]] = [("system", drawn.choice(TEXTS))] if drawn.random() < 0.5 else []
    for _ in range(drawn.randint(1, 3)):
        turns.append(("user", drawn.choice(TEXTS)))
        for _ in range(drawn.choice([0, 1, 1, 2])):
            made = calls(drawn)
            turns += [
                ("calls", (drawn.choice(["", "let me see"]), made)),
                ("results", [drawn.choice(TEXTS) for _ in made]),
            ]
        turns.append(("assistant", drawn.choice(TEXTS)))
    return turns


def expected(turns: list[tuple[str, Any]], *, texts_of_calls: bool, strip: bool) -> list[dict[str, Any]]:
    """The messages as templates read them."""
    found: list[dict[str, Any]] = []
    for role, content in turns:
        if role == "calls":
            text, made = content
            tools = [{"type": "function", "function": one} for one in made]
            found.append({"role": "assistant", "tool_calls": tools})
            if text and texts_of_calls:
                found[-1]["content"] = text
        elif role == "results":
            found += [{"role": "tool", "content": one.strip() if strip else one} for one in content]
        else:
            found.append({"role": role, "content": content})
    return found


def as_openai(turns: list[tuple[str, Any]], drawn: random.Random) -> Iterator[dict[str, Any]]:
    """Arguments as JSON text or objects; a single call as `tool_calls` or the older `function_call`."""
    for role, content in turns:
        if role == "results":
            yield from ({"role": "tool", "content": one} for one in content)
        elif role != "calls":
            yield {"role": role, "content": content}
        else:
            text, made = content
            as_text = drawn.random() < 0.5
            functions = [
                {**one, "arguments": json.dumps(one["arguments"], ensure_ascii=drawn.random() < 0.5)}
                if as_text
                else one
                for one in made
            ]
            older = len(made) == 1 and drawn.random() < 0.5
            fields = (
                {"function_call": functions[0]}
                if older
                else {"tool_calls": [{"type": "function", "function": one} for one in functions]}
            )
            yield {"role": "assistant", "content": text or None, **fields}


def as_sharegpt(turns: list[tuple[str, Any]], drawn: random.Random) -> Iterator[dict[str, Any]]:
    names = {"user": "human", "assistant": "gpt", "system": "system"}
    for role, content in turns:
        if role == "results":
            yield from ({"from": drawn.choice(["observation", "tool"]), "value": one} for one in content)
        elif role == "calls":
            made = content[1]
            whole = made[0] if len(made) == 1 and drawn.random() < 0.5 else made
            yield {"from": "function_call", "value": json.dumps(whole, indent=drawn.choice([None, 2]))}
        else:
            yield {"from": names[role], "value": content}


def as_hermes(turns: list[tuple[str, Any]], drawn: random.Random) -> Iterator[dict[str, Any]]:
    """The results of one turn of calls stand in one turn of the tool."""
    gap = drawn.choice(["\n", "", " "])
    for role, content in turns:
        if role == "results":
            text = "\n".join(f"<tool_response>{gap}{one}{gap}</tool_response>" for one in content)
            yield {"from": "tool", "value": text}
        elif role == "calls":
            text, made = content
            blocks = [f"<tool_call>{gap}{json.dumps(one)}{gap}</tool_call>" for one in made]
            yield {"from": "gpt", "value": "\n".join([text, *blocks] if text else blocks)}
        else:
            yield {"from": {"user": "human", "assistant": "gpt", "system": "system"}[role], "value": content}


FORMATS: dict[str, tuple[Any, dict[str, Any], dict[str, bool]]] = {
    "openai": (
        as_openai,
        {"role_key": "role", "content_key": "content"},
        {"texts_of_calls": True, "strip": False},
    ),
    "sharegpt": (as_sharegpt, {}, {"texts_of_calls": False, "strip": False}),
    "hermes": (as_hermes, {"tagged_calls": True}, {"texts_of_calls": True, "strip": True}),
}


@pytest.mark.parametrize("name", FORMATS)
def test_random_conversations_are_read_as_they_were_meant(name: str, tmp_path: Path) -> None:
    write, params, how = FORMATS[name]
    drawn = random.Random(name)
    talks = [talk(drawn) for _ in range(COUNT)]
    rows = [{"talk": list(write(one, drawn)), "n": number} for number, one in enumerate(talks)]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    source = {"files": {"path": "rows.jsonl", "columns": {"talk": "any", "n": "integer"}}}
    step = {"conversations": {"column": "talk", **params}}
    given = {"it": {"from": source, "steps": [step]}}
    built = BuiltDatasets(tmp_path / "out", given, {"rows.jsonl": lines})
    found = {row["n"]: row["messages"] for row in built.rows("it")}
    assert len(found) == COUNT
    for number, one in enumerate(talks):
        assert found[number] == expected(one, **how), rows[number]
