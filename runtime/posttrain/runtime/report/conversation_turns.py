"""Splits a conversation or an episode into turns, from messages or from decoded text."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from posttrain.runtime.report.markup import Markup, preformatted, tag
from posttrain.runtime.report.number_format import format_value, plural
from posttrain.runtime.report.run_record import ToolCall, Turn

# A role of a chat template on a line of its own, with the special tokens that some decoders keep.
_ROLE = re.compile(
    r"^(?:<\|\w+\|>)?(?:<\|)?(system|user|assistant|tool)(?:\|>)?(?:<\|\w+\|>)?[ \t]*$", re.MULTILINE
)
_END_TOKENS = re.compile(r"\s*(?:<\|(?:im_end|eot_id|end|endoftext)\|>\s*)+")
_NAMES = {"assistant": "Model", "user": "User", "system": "System", "tool": "Tool"}
_MAX_TURNS, _MAX_CALLS = 60, 20
# Reasoning at the start of a text. The start tag can be a part of the prompt.
_REASONING = re.compile(r"\s*(?:<think>)?(?P<reasoning>.*?)</think>\s*", re.DOTALL)


def parse_messages(value: Any) -> tuple[Turn, ...]:
    """The turns of a list of messages; empty for any other value."""
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        return ()
    return tuple(
        Turn(
            role=str(one.get("role") or ""),
            text=_text(one.get("content")),
            calls=tuple(_tool_calls(one.get("tool_calls"))),
            reasoning=str(one.get("reasoning_content") or ""),
        )
        for one in value
    )


def turn_text(turn: Turn) -> str:
    """The text of a turn, and its tool calls as NAME(ARGUMENTS)."""
    return "\n".join(filter(None, (turn.text, *(f"{call.name}({call.arguments})" for call in turn.calls))))


def _tool_calls(found: Any) -> Iterator[ToolCall]:
    for call in found if isinstance(found, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            arguments = function.get("arguments")
            words = arguments if isinstance(arguments, str) else format_value(arguments)
            yield ToolCall(name=str(function.get("name")), arguments=words)


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
        room -= len(turn_text(turn)) + len(turn.reasoning)
    left = len(found) - len(shown)
    more = tag("p", f"{left:,} more turns are not shown.", class_="soft") if left else None
    return tag("div", shown, more, class_="turns", tabindex=0, role="group", aria_label="Turns")


def render_text(name: str, words: str, room: int) -> Markup:
    """A text with its whitespace; marks an empty text, and says how much of a long text is omitted."""
    if not words:
        return tag("div", tag("h4", name), tag("p", "empty", class_="soft"), class_="text")
    left = len(words) - room
    more = tag("p", f"{left:,} more characters are not shown.", class_="soft") if left > 0 else None
    shown = _fold_reasoning(words[:room])
    return tag("div", tag("h4", name), shown, more, class_="text")


def _fold_reasoning(words: str) -> list[Markup]:
    """The text, with the reasoning before its answer folded."""
    found = _REASONING.match(words)
    if found is None:
        return [preformatted(words, reached=_may_scroll(words))]
    folded, answer = _folded_reasoning(found["reasoning"]), words[found.end() :]
    return [folded, preformatted(answer, reached=_may_scroll(answer))] if answer.strip() else [folded]


def _folded_reasoning(reasoning: str) -> Markup:
    summary = tag("summary", f"Reasoning, {plural(len(reasoning.split()), 'word')}")
    return tag("details", summary, preformatted(reasoning, reached=_may_scroll(reasoning)))


def _may_scroll(words: str) -> bool:
    """Whether a text can need scrolling, so that the keyboard must reach it."""
    return len(words) > 500 or words.count("\n") > 8


def _turn(turn: Turn, room: int, episode: bool) -> Markup:
    role = "environment" if episode and turn.role == "user" else turn.role
    name = _NAMES.get(role) or role.capitalize() or "Turn"
    words = _cut(turn.text, room)
    empty = not (words or turn.calls or turn.reasoning)
    body = [
        _folded_reasoning(_cut(turn.reasoning, room)) if turn.reasoning else None,
        _fold_reasoning(words) if words else tag("p", "empty", class_="soft") if empty else None,
        [_folded_call(call, room) for call in turn.calls[:_MAX_CALLS]],
    ]
    if len(turn.calls) > _MAX_CALLS:
        body.append(tag("p", f"{len(turn.calls) - _MAX_CALLS:,} more calls are not shown.", class_="soft"))
    return tag("div", tag("h4", name), body, class_="turn own" if role == "assistant" else "turn")


def _cut(words: str, room: int) -> str:
    return words[:room] + ("\u2026" if len(words) > room else "")


def _folded_call(call: ToolCall, room: int) -> Markup:
    """A tool call: its name, and its arguments folded."""
    words = _cut(call.arguments, room)
    return tag(
        "details",
        tag("summary", f"Tool call: {_cut(call.name, 80)}"),
        preformatted(words, reached=_may_scroll(words)),
    )
