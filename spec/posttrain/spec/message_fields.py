"""The fields of a message, and the meaning of others, which would be lost."""

from collections.abc import Mapping
from typing import Any

# `weight` is the weight of the turn in the loss. Chat templates get all other fields.
MESSAGE_FIELDS = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name", "weight")
# Other names of fields that rows can have: `train: false` is a weight of 0, `function_call` a single call.
ALIAS_FIELDS = ("train", "function_call")
# Fields that published datasets have and chat templates or trainers interpret. Other fields are refused too.
_MEANINGS = {
    **dict.fromkeys(("tool_calls", "function_call", "tool_call"), "the calls of tools"),
    **dict.fromkeys(("tool_call_id", "tool_name"), "the call that a result belongs to"),
    "name": "the name of the speaker or tool",
    "tools": "the tools of the turn",
    **dict.fromkeys(("reasoning_content", "reasoning", "thinking", "thoughts"), "the reasoning"),
    **dict.fromkeys(("image", "images", "audio", "video", "videos"), "an input other than text"),
    **dict.fromkeys(("weight", "train", "loss", "trainable"), "the weight of the turn in the loss"),
    **dict.fromkeys(("prefix", "partial"), "whether the turn continues"),
    **dict.fromkeys(("citations", "documents"), "the documents of the turn"),
}


def is_empty(value: Any) -> bool:
    """Whether the value of a field says nothing. False and 0 do: they are weights."""
    return value is None or (isinstance(value, str | list | dict) and not value)


def lost_field(
    turn: Mapping[str, Any], known: tuple[str, ...] = (*MESSAGE_FIELDS, *ALIAS_FIELDS)
) -> str | None:
    """The first field of a message, besides the known ones, that has a value."""
    return next((name for name, value in turn.items() if name not in known and not is_empty(value)), None)


def describe_field(name: str) -> str:
    """The field in an error message, with its meaning."""
    meaning = _MEANINGS.get(name)
    return f"`{name}`{f' ({meaning})' if meaning else ''}"
