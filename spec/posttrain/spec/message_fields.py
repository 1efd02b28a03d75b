"""The fields of a message: the two that chat templates get and the meaning of others, which would be lost."""

from collections.abc import Mapping
from typing import Any

MESSAGE_FIELDS = ("role", "content")
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
# Values of a field that say nothing.
_EMPTY: tuple[Any, ...] = (None, "", [], {})


def lost_field(turn: Mapping[str, Any], known: tuple[str, ...] = MESSAGE_FIELDS) -> str | None:
    """The first field of a message, besides the known ones, that has a value."""
    return next((name for name, value in turn.items() if name not in known and value not in _EMPTY), None)


def describe_field(name: str) -> str:
    """The field in an error message, with its meaning."""
    meaning = _MEANINGS.get(name)
    return f"`{name}`{f' ({meaning})' if meaning else ''}"
