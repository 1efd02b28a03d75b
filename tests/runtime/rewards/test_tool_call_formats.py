"""The tool call notations: no parser executes anything or accepts malformed calls."""

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.runtime.rewards.text_parsing.tool_call_formats import (
    PARSERS,
    Format,
    normalize_calls,
    parse_calls,
    parse_tagged,
)

NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
VALUES = st.one_of(
    st.integers(-(10**9), 10**9), st.text("ab \"'{}<>\n", max_size=8), st.booleans(), st.lists(st.integers())
)
ARGUMENTS = st.dictionaries(NAMES, VALUES, max_size=3)
CALLS = st.lists(st.fixed_dictionaries({"name": NAMES, "arguments": ARGUMENTS}), min_size=1, max_size=3)
PYTHON_WORDS = frozenset(
    [
        "and",
        "as",
        "assert",
        "async",
        "await",
        "break",
        "class",
        "continue",
        "def",
        "del",
        "elif",
        "else",
        "except",
        "finally",
        "for",
        "from",
        "global",
        "if",
        "import",
        "in",
        "is",
        "lambda",
        "nonlocal",
        "not",
        "or",
        "pass",
        "raise",
        "return",
        "try",
        "while",
        "with",
        "yield",
    ]
)


def said(call: dict) -> str:
    return f"{call['name']}({', '.join(f'{name}={value!r}' for name, value in call['arguments'].items())})"


@given(CALLS)
def test_each_notation_reads_what_it_writes(calls: list[dict]):
    texts: dict[Format, str] = {
        "json": json.dumps(calls),
        "openai": json.dumps(
            {"tool_calls": [{"function": {**c, "arguments": json.dumps(c["arguments"])}} for c in calls]}
        ),
        "llama": "<|python_tag|>"
        + "; ".join(json.dumps({"name": c["name"], "parameters": c["arguments"]}) for c in calls),
        "mistral": "[TOOL_CALLS]" + json.dumps(calls) + "</s>",
        "tags": "".join(f"<tool_call>{json.dumps(c)}</tool_call>" for c in calls),
    }
    named = {name for c in calls for name in (c["name"], *c["arguments"])}
    if not named & PYTHON_WORDS:
        texts["pythonic"] = f"[{', '.join(map(said, calls))}]"
    if not any(mark in text for mark in ("<", ">", "[ARGS]") for text in map(str, calls)):
        for notation, text in texts.items():
            assert parse_calls(text, notation, "<tool_call>", "</tool_call>") == calls, notation


@pytest.mark.parametrize("notation", [*PARSERS, "tags", "any"])
@pytest.mark.parametrize("text", ["", "I call nothing.", "f", "<", "\x00", "look (at this)", "()"])
def test_a_text_without_a_call_gives_none(notation: Format, text: str):
    assert parse_calls(text, notation, "<tool_call>", "</tool_call>") == []


@pytest.mark.parametrize(
    "text",
    [
        "[f(a=__import__('os').getcwd())]",
        "[f(a=open('x'))]",
        "f(**{'a': 1})",
        "f(1)",
        "[f(a=b)]",
        "f(a=1",
        "f()()",
    ],
)
def test_only_literals_are_arguments(text: str):
    with pytest.raises(ValueError, match=r"argument|cannot be parsed|no name"):
        parse_calls(text, "pythonic", "", "")


def test_a_call_without_its_end_is_refused():
    with pytest.raises(ValueError, match="not closed"):
        parse_tagged('<tool_call>{"name": "f"}', "<tool_call>", "</tool_call>")


@pytest.mark.parametrize(
    "value", [None, 1, "f", [], {}, {"name": 1}, {"name": "f", "arguments": [1]}, [{"name": "f"}, 2]]
)
def test_what_is_no_call_is_refused(value: object):
    if value == []:
        assert normalize_calls(value) == []
        return
    with pytest.raises(ValueError, match="a call must be a JSON object"):
        normalize_calls(value)


@pytest.mark.parametrize("notation", PARSERS)
def test_deep_nesting_is_no_call(notation: Format):
    text = "f(a=" + "[" * 5000 + "]" * 5000 + ")"
    if notation == "pythonic":
        with pytest.raises(ValueError, match="cannot be parsed"):
            parse_calls(text, notation, "", "")
    else:
        assert parse_calls(text, notation, "", "") == []


@pytest.mark.parametrize(
    ("notation", "text"),
    [
        ("qwen_xml", "<function=f>" * 16_000),
        ("qwen_xml", "<function=f>" + "<parameter=p>" * 14_000 + "</function>"),
        ("deepseek", "<\uff5ctool\u2581call\u2581begin\uff5c>f<\uff5ctool\u2581sep\uff5c>" * 6_000),
        ("tags", "<tool_call><function=f>" * 8_000),
        ("mistral", "[TOOL_CALLS]f" * 14_000),
    ],
)
def test_openings_without_a_closing_are_searched_once(notation: Format, text: str) -> None:
    began = time.thread_time()
    with contextlib.suppress(ValueError):
        assert parse_calls(text, notation, "<tool_call>", "</tool_call>") in (
            [],
            [{"name": "f", "arguments": {}}],
        )
    assert time.thread_time() - began < 5.0, "a quadratic search takes minutes"
