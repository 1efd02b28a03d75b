"""Tool calls, results and lists of tools in the text of turns, in the format of Hermes.

`<tool_call>{"name": ..., "arguments": ...}</tool_call>` in the turns of the assistant, `<tool_response>` in
those of tools, and `<tools>` with JSON schemas in the system turn.
"""

import re
from collections.abc import Sequence
from typing import Any

from posttrain.spec.messages import Message, parse_call, parse_json, parse_tools

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_RESPONSE = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)
_TOOLS = re.compile(r"<tools>(.*?)</tools>", re.DOTALL)


def read_tags(message: Message) -> list[Message]:
    """The messages of a turn: calls become `tool_calls`, and each result a turn of a tool.

    Raises ValueError with the cause for unbalanced tags and malformed calls.
    """
    content = message.get("content") or ""
    if message["role"] == "assistant" and "tool_call>" in content:
        calls = [parse_call(parse_json(text.strip())) for text in _blocks(_CALL, content, "tool_call")]
        rest = _CALL.sub("", content).strip()
        others = {name: value for name, value in message.items() if name != "content"}
        return [{**others, **({"content": rest} if rest else {}), "tool_calls": calls}]
    if message["role"] == "tool" and "tool_response>" in content:
        results = _blocks(_RESPONSE, content, "tool_response")
        outside = _RESPONSE.sub("", content).strip()
        if outside:
            raise ValueError(f"text outside of <tool_response>: {outside[:80]}")
        return [{**message, "content": text.strip()} for text in results]
    return [message]


def listed_tools(content: str) -> list[dict[str, Any]] | None:
    """The tools that a system turn lists: a JSON list, or one JSON object for each line. None without any."""
    blocks = [text.strip() for text in _TOOLS.findall(content) if text.strip()]
    if not blocks:
        return None
    if len(blocks) > 1:
        raise ValueError("the system turn has more than one list in <tools>")
    return parse_tools(blocks[0] if blocks[0].startswith("[") else _json_lines(blocks[0]))


def _json_lines(text: str) -> Sequence[Any]:
    return [parse_json(line) for line in text.splitlines() if line.strip()]


def _blocks(pattern: re.Pattern[str], content: str, tag: str) -> list[str]:
    blocks = pattern.findall(content)
    if not len(blocks) == content.count(f"<{tag}>") == content.count(f"</{tag}>"):
        raise ValueError(f"<{tag}> and </{tag}> are not balanced")
    return blocks
