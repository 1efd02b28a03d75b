"""Parses messages with tool calls to one canonical form, and converts that form for chat templates.

A canonical message has the fields of `MESSAGE_FIELDS`. Rows can spell some of them differently: calls without
`function`, arguments as an object or as its JSON text, `train: false` instead of `weight: 0`. Arguments are
stored as JSON text, because the arguments of different tools have no common type, and decoded for templates.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, cast

from posttrain.spec.chat_templates.reserved_arguments import RESERVED_ARGUMENTS
from posttrain.spec.message_fields import MESSAGE_FIELDS, describe_field, is_empty, lost_field
from posttrain.spec.suggestions import closest_match

Message = dict[str, Any]
_TEXT_FIELDS = ("reasoning_content", "tool_call_id", "name")
_CALL_FIELDS = ("id", "function")
# Templates render a whole tool, so it can have others too.
_TOOL_FIELDS = ("name", "description", "parameters", "strict", "return", "returns", "response")
_SHOWN_CHARACTERS = 80


def parse_message(value: Any, *, drop_nulls: bool = False) -> Message:
    """Return the canonical form of a message, with the fields that have a value.

    `drop_nulls` removes the nulls in arguments, which a table of typed columns has for the arguments of
    other rows. Raises ValueError with the cause if the message is malformed or has fields that would be lost.
    """
    turn = _as_mapping(value)
    if turn is None:
        raise ValueError(f"a turn is not an object: {_shown(value)}")
    lost = lost_field(turn)
    if lost is not None:
        raise ValueError(f"a turn has the field {describe_field(lost)}, which would be lost")
    role = turn.get("role")
    if not isinstance(role, str):
        raise ValueError("a turn has no text in `role`")
    message: Message = {"role": role}
    calls = _parse_calls(turn, role, drop_nulls)
    content = turn.get("content")
    if isinstance(content, str):
        message["content"] = content
    elif content is not None or not calls:
        raise ValueError("a turn has no text in `content`")
    if not is_empty(turn.get("reasoning_content")):
        message["reasoning_content"] = _text(turn, "reasoning_content")
    if calls:
        message["tool_calls"] = calls
    for name in ("tool_call_id", "name"):
        if not is_empty(turn.get(name)):
            message[name] = _text(turn, name)
    weight = _parse_weight(turn)
    return message if weight is None else {**message, "weight": weight}


def is_plain(turn: Mapping[str, Any]) -> bool:
    """Whether a message has only a role and a content."""
    return all(name in ("role", "content") or is_empty(value) for name, value in turn.items())


def stored_message(message: Mapping[str, Any]) -> Message:
    """The canonical message with all of its fields, null where it has none."""
    calls = cast(Sequence[Mapping[str, Any]] | None, message.get("tool_calls"))
    stored = [{name: call.get(name) for name in _CALL_FIELDS} for call in calls] if calls else None
    return {**{name: message.get(name) for name in MESSAGE_FIELDS}, "tool_calls": stored}


def load_message(stored: Mapping[str, Any]) -> Message:
    """A stored message as chat templates read it: without nulls, with arguments as objects."""
    message = {name: value for name, value in stored.items() if value is not None}
    if "tool_calls" in message:
        message["tool_calls"] = [_load_call(call) for call in message["tool_calls"]]
    return message


def template_messages(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """The messages without nulls, and without the weights, which only the loss reads."""
    return [
        {name: value for name, value in turn.items() if name != "weight" and value is not None}
        for turn in messages
    ]


def turn_text(turn: Mapping[str, Any]) -> str:
    """The content of a message; a turn that only calls tools has none."""
    return turn.get("content") or ""


def turn_words(turn: Mapping[str, Any]) -> str:
    """Everything that a message says, including reasoning and calls."""
    calls = [
        json.dumps(call["function"], ensure_ascii=False, default=str) for call in turn.get("tool_calls") or ()
    ]
    parts = (turn.get("reasoning_content"), turn.get("content"), *calls)
    return "\n".join(part for part in parts if part)


def parse_call(value: Any, *, drop_nulls: bool = False) -> dict[str, Any]:
    """The canonical form of a call: `{id, function: {name, arguments}}`, with the arguments as JSON text."""
    call = _as_mapping(value)
    if call is None:
        raise ValueError(f"a tool call is not an object: {_shown(value)}")
    outer = {name: item for name, item in call.items() if name not in ("name", "arguments")}
    if "function" not in call:
        outer["function"] = {name: call[name] for name in ("name", "arguments") if name in call}
    function = _as_mapping(outer["function"])
    if function is None or not isinstance(function.get("name"), str) or not function["name"]:
        raise ValueError(f"a tool call has no `name`: {_shown(value)}")
    name = function["name"]
    for known, part in (((*_CALL_FIELDS, "type", "index"), outer), (("name", "arguments"), function)):
        lost = lost_field(part, known)
        if lost is not None:
            raise ValueError(f"the call of `{name}` has the field `{lost}`, which would be lost")
    if outer.get("type") not in (None, "function"):
        raise ValueError(f"the call of `{name}` has the type {_shown(outer['type'])}; only functions")
    arguments = _parse_arguments(name, function.get("arguments"), drop_nulls)
    text = json.dumps(arguments, ensure_ascii=False)
    id = {} if is_empty(outer.get("id")) else {"id": _text(outer, "id")}
    return {**id, "function": {"name": name, "arguments": text}}


def parse_tools(value: Any) -> list[dict[str, Any]] | None:
    """The tools of a row, as a list of JSON schemas of functions; None without tools.

    Accepts the list, its JSON text, or a list of JSON texts. A bare function gets `type: function`.
    """
    tools = parse_json(value) if isinstance(value, str) else value
    if tools is None or tools == "":
        return None
    if not isinstance(tools, list):
        raise ValueError(f"`tools` is not a list of functions: {_shown(value)}")
    parsed = [_parse_tool(tool) for tool in cast(list[Any], tools)]
    names = [tool["function"]["name"] for tool in parsed]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"`tools` has the tool `{repeated}` more than once")
    return parsed or None


def parse_template_kwargs(value: Any) -> dict[str, Any]:
    """The arguments of the chat template of a row, from an object or its JSON text."""
    found = parse_json(value) if isinstance(value, str) else value
    if found is None:
        return {}
    mapping = _as_mapping(found)
    if mapping is None:
        raise ValueError(f"`chat_template_kwargs` is not an object: {_shown(value)}")
    reserved = next((name for name in mapping if name in RESERVED_ARGUMENTS), None)
    if reserved is not None:
        raise ValueError(f"`chat_template_kwargs` has `{reserved}`, which the program sets itself")
    return dict(mapping)


def parse_json(text: str) -> Any:
    """Parse JSON. Refuses numbers that JSON does not have, and repeated keys, whose values would be lost."""
    try:
        return json.loads(text, parse_constant=_reject_constant, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not valid JSON ({error}): {_shown(text)}") from None


def _parse_calls(turn: Mapping[str, Any], role: str, drop_nulls: bool) -> list[dict[str, Any]]:
    calls: Any = turn.get("tool_calls")
    if isinstance(calls, str) and calls:
        calls = parse_json(calls)
    if not is_empty(turn.get("function_call")):
        if not is_empty(calls):
            raise ValueError("a turn has both `tool_calls` and `function_call`")
        calls = [turn["function_call"]]
    if is_empty(calls):
        return []
    if not isinstance(calls, list):
        raise ValueError(f"`tool_calls` is not a list: {_shown(calls)}")
    if role != "assistant":
        raise ValueError(f"a turn of `{role}` has tool calls; only the assistant calls tools")
    return [parse_call(call, drop_nulls=drop_nulls) for call in cast(list[Any], calls)]


def _parse_arguments(name: str, value: Any, drop_nulls: bool) -> Mapping[str, Any]:
    try:
        found = parse_json(value) if isinstance(value, str) and value.strip() else value
    except ValueError as error:
        raise ValueError(f"the arguments of the call of `{name}` are {error}") from None
    if found is None or (isinstance(found, str) and not found.strip()):
        return {}
    arguments = _as_mapping(found)
    if arguments is None:
        raise ValueError(f"the arguments of the call of `{name}` are not an object: {_shown(value)}")
    return without_nulls(arguments) if drop_nulls else arguments


def without_nulls(value: Any) -> Any:
    """The value without the keys of objects that are null."""
    if isinstance(value, dict):
        return {
            key: without_nulls(item) for key, item in cast(dict[str, Any], value).items() if item is not None
        }
    return [without_nulls(item) for item in cast(list[Any], value)] if isinstance(value, list) else value


def _parse_weight(turn: Mapping[str, Any]) -> float | None:
    weight, train = turn.get("weight"), turn.get("train")
    if train is not None and not isinstance(train, bool):
        raise ValueError(f"`train` of a turn is not true or false: {_shown(train)}")
    if weight is None:
        return None if train is None else float(train)
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not is_number or not math.isfinite(weight) or weight < 0:
        raise ValueError(f"`weight` of a turn is not a number from 0 on: {_shown(weight)}")
    if train is not None and bool(weight) != train:
        raise ValueError(f"`train` and `weight` of a turn contradict: {_shown(train)}, {_shown(weight)}")
    return float(weight)


def _parse_tool(value: Any) -> dict[str, Any]:
    tool = _as_mapping(parse_json(value) if isinstance(value, str) else value)
    if tool is None:
        raise ValueError(f"a tool is not an object: {_shown(value)}")
    wrapped = dict(tool) if "function" in tool else {"type": "function", "function": dict(tool)}
    function = _as_mapping(wrapped["function"])
    if function is None or not isinstance(function.get("name"), str) or not function["name"]:
        raise ValueError(f"a tool has no `name`: {_shown(value)}")
    if wrapped.get("type", "function") != "function":
        raise ValueError(
            f"the tool `{function['name']}` has the type {_shown(wrapped['type'])}; only functions"
        )
    for name in function:
        meant = None if name in _TOOL_FIELDS else closest_match(name, _TOOL_FIELDS)
        if meant is not None and meant not in function:
            raise ValueError(f"the tool `{function['name']}` has the key `{name}`: did you mean `{meant}`?")
    if not isinstance(function.get("parameters", {}), dict | None):
        raise ValueError(f"the parameters of the tool `{function['name']}` are not a JSON schema")
    return wrapped


def _load_call(stored: Mapping[str, Any]) -> dict[str, Any]:
    function: Mapping[str, Any] = stored["function"]
    id = {} if stored.get("id") is None else {"id": stored["id"]}
    arguments = function["arguments"]
    decoded = json.loads(arguments) if isinstance(arguments, str) else arguments
    return {**id, "type": "function", "function": {"name": function["name"], "arguments": decoded}}


def _text(turn: Mapping[str, Any], name: str) -> str:
    value = turn[name]
    if not isinstance(value, str):
        raise ValueError(f"`{name}` is not text: {_shown(value)}")
    return value


def _as_mapping(value: Any) -> Mapping[str, Any] | None:
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else None


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key `{next(name for name in names if names.count(name) > 1)}` is repeated")
    return found


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")
