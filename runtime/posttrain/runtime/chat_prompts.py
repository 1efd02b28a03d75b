"""Prompts with the tools of their row and arguments of the chat template."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.spec.messages import Message, parse_template_kwargs, parse_tools, template_messages

# Columns of a row that the chat template gets in addition to the messages.
TOOLS = "tools"
TEMPLATE_KWARGS = "chat_template_kwargs"
TEMPLATE_COLUMNS = (TOOLS, TEMPLATE_KWARGS)
_TOOLS_ADVICE = "correct the column, rename it if it means something else, or remove it with `select`"


@dataclass(frozen=True)
class ChatPrompt:
    """A conversation with tools or arguments of the chat template. Others are plain lists of messages."""

    messages: list[Message]
    # JSON schemas of functions.
    tools: list[dict[str, Any]] | None = None
    template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def with_messages(self, messages: Sequence[Message]) -> "ChatPrompt":
        return replace(self, messages=list(messages))


Prompt = str | list[dict[str, Any]] | ChatPrompt


def chat_prompt(messages: Sequence[Message], row: Mapping[str, Any]) -> list[Message] | ChatPrompt:
    """The prompt of a row whose template columns have been read."""
    turns = template_messages(messages)
    tools, template_kwargs = row.get(TOOLS), row.get(TEMPLATE_KWARGS) or {}
    if tools is None and not template_kwargs:
        return turns
    return ChatPrompt(turns, tools, template_kwargs)


def row_prompt(row: Mapping[str, Any]) -> Any:
    """The prompt of a row of a trainer's dataset, where tools are JSON text."""
    if isinstance(row["prompt"], str):
        return row["prompt"]
    tools, template_kwargs = parse_tools(row.get(TOOLS)), row.get(TEMPLATE_KWARGS)
    return chat_prompt(row["prompt"], {TOOLS: tools, TEMPLATE_KWARGS: template_kwargs})


def prompt_turns(prompt: list[Message] | ChatPrompt) -> list[Message]:
    return prompt.messages if isinstance(prompt, ChatPrompt) else prompt


def as_chat(prompt: list[Message] | ChatPrompt) -> ChatPrompt:
    return prompt if isinstance(prompt, ChatPrompt) else ChatPrompt(prompt)


def replace_turns(prompt: list[Message] | ChatPrompt, turns: Sequence[Message]) -> list[Message] | ChatPrompt:
    """The prompt with other messages, and the same tools and arguments."""
    return prompt.with_messages(turns) if isinstance(prompt, ChatPrompt) else list(turns)


def render_arguments(prompt: list[Message] | ChatPrompt) -> dict[str, Any]:
    """The arguments of `apply_chat_template` besides the messages."""
    if not isinstance(prompt, ChatPrompt):
        return {}
    return {"tools": prompt.tools, **prompt.template_kwargs}


def prompt_json(prompt: Prompt) -> Any:
    """The prompt as JSON, for digests and logs."""
    if not isinstance(prompt, ChatPrompt):
        return prompt
    return {
        "messages": prompt.messages,
        TOOLS: prompt.tools,
        TEMPLATE_KWARGS: dict(prompt.template_kwargs),
    }


def read_template_columns(
    rows: Sequence[Mapping[str, Any]], stage_kwargs: Mapping[str, Any], first: int = 1
) -> list[dict[str, Any]]:
    """The rows with their tools and template arguments parsed. Those of a row override those of the stage.

    `first` is the number of the first row. Raises StepError for the first row with a malformed value.
    """
    if not stage_kwargs and not any(name in row for row in rows[:1] for name in TEMPLATE_COLUMNS):
        return [dict(row) for row in rows]
    found: list[dict[str, Any]] = []
    for number, row in enumerate(rows, first):
        try:
            parsed = {TOOLS: parse_tools(row[TOOLS])} if TOOLS in row else {}
            own = parse_template_kwargs(row.get(TEMPLATE_KWARGS))
        except ValueError as error:
            raise StepError(f"row {number}: {error}", _TOOLS_ADVICE) from None
        found.append({**row, **parsed, TEMPLATE_KWARGS: {**stage_kwargs, **own}})
    return found


def has_template_values(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a row has tools or arguments of the chat template."""
    return any(row.get(TOOLS) or row.get(TEMPLATE_KWARGS) for row in rows)
