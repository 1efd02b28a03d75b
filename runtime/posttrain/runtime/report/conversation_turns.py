"""Splits a conversation or an episode into turns, from messages or from decoded text."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from posttrain.runtime.report.markup import Markup, preformatted, tag
from posttrain.runtime.report.run_record import Turn

# A role of a chat template on a line of its own, with the special tokens that some decoders keep.
_ROLE = re.compile(
    r"^(?:<\|\w+\|>)?(?:<\|)?(system|user|assistant|tool)(?:\|>)?(?:<\|\w+\|>)?[ \t]*$", re.MULTILINE
)
_END_TOKENS = re.compile(r"\s*(?:<\|(?:im_end|eot_id|end|endoftext)\|>\s*)+")
_NAMES = {"assistant": "Model", "user": "User", "system": "System", "tool": "Tool"}
_MAX_TURNS = 60


def parse_messages(value: Any) -> tuple[Turn, ...]:
    """The turns of a list of messages; empty for any other value."""
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        return ()
    return tuple(Turn(role=str(one.get("role") or ""), text=_text(one.get("content"))) for one in value)


def _text(content: Any) -> str:
    """The text of a message, whose content can be a list of parts."""
    if isinstance(content, list):
        return "\n".join(str(one.get("text", "")) for one in content if isinstance(one, Mapping))
    return "" if content is None else str(content)


def split_episode(text: str) -> tuple[Turn, ...]:
    """The turns of an episode that was decoded as one text and starts with the model's turn.

    Empty for a single turn.
    """
    parts = _ROLE.split(text)
    if len(parts) < 3:
        return ()
    roles = ["assistant", *parts[1::2]]
    found = [
        Turn(role=role, text=_END_TOKENS.sub("", text).strip("\n"))
        for role, text in zip(roles, parts[::2], strict=True)
    ]
    return tuple(turn for turn in found if turn.text)


def render_turns(turns: Iterable[Turn], room: int, *, episode: bool) -> Markup:
    """The turns in order, up to `room` characters, with a distinct style for the model's turns."""
    found = list(turns)
    shown: list[Markup] = []
    for turn in found[:_MAX_TURNS]:
        if room <= 0:
            break
        shown.append(_turn(turn, room, episode))
        room -= len(turn.text)
    left = len(found) - len(shown)
    more = tag("p", f"{left:,} more turns are not shown.", class_="soft") if left else None
    return tag("div", shown, more, class_="turns", tabindex=0, role="group", aria_label="Turns")


def _turn(turn: Turn, room: int, episode: bool) -> Markup:
    role = "environment" if episode and turn.role == "user" else turn.role
    name = _NAMES.get(role) or role.capitalize() or "Turn"
    words = turn.text[:room] + ("\u2026" if len(turn.text) > room else "")
    body = preformatted(words, reached=False) if words else tag("p", "empty", class_="soft")
    return tag("div", tag("h4", name), body, class_="turn own" if role == "assistant" else "turn")
