"""Conversations with tool calls, for measurements: the recipe of the tests with other rows and a template."""

import json
import re
from typing import Any

TOOL_CALLS = "sft, tool calls"
_ROWS = 81  # as many as the sums of the recipe


def tool_recipe(text: str) -> str:
    """The recipe of the tests with conversations that call a tool, and a template that renders them."""
    text = re.sub(r"from: \{arithmetic: .*\}\n", f"from: {{rows: {tool_rows()}}}\n", text, count=1)
    text = re.sub(r"      - derive: .*\n", "", text)
    text = re.sub(r"tokenizer: \{.*\}", "tokenizer: {init: characters}", text)
    return text.replace("chat_template: chat.jinja", "chat_template: chatml").replace(
        "max_position_embeddings: 64", "max_position_embeddings: 1024"
    )


def tool_rows() -> str:
    """The rows as a value of a recipe."""
    return json.dumps([_row(number) for number in range(_ROWS)])


def _row(number: int) -> dict[str, Any]:
    first, second = divmod(number, 9)
    call = {"name": "add", "arguments": json.dumps({"a": first, "b": second})}
    messages = [
        {"role": "user", "content": f"{first}+{second}"},
        {"role": "assistant", "tool_calls": [{"type": "function", "function": call}]},
        {"role": "tool", "name": "add", "content": str(first + second)},
        {"role": "assistant", "content": f"It is {first + second}."},
    ]
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    tool = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": schema}}
    return {"messages": messages, "tools": json.dumps([tool])}
