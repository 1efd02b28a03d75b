"""Parsers for the tool call notations of model families. Each returns names with arguments.

A text without a call has no calls. A malformed call raises ValueError.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, cast

from posttrain.runtime.rewards.text_parsing.json_extraction import JsonNotFoundError, read_json

Call = dict[str, Any]
Format = Literal["tags", "json", "llama", "mistral", "qwen_xml", "deepseek", "openai", "pythonic", "any"]
MAX_CHARACTERS = 200_000
LLAMA = "<|python_tag|>"
MISTRAL = "[TOOL_CALLS]"
MISTRAL_CALL = re.compile(r"\[TOOL_CALLS\]\s*([\w.-]{1,128})\s*(?:\[CALL_ID\][^\[]{0,64})?\[ARGS\]")
FUNCTION = re.compile(r"<function=([^<>\n]{1,128})>")
PARAMETER = re.compile(r"<parameter=([^<>\n]{1,128})>\n?")
DEEPSEEK = re.compile(
    r"<\uff5ctool\u2581call\u2581begin\uff5c>(?:function<\uff5ctool\u2581sep\uff5c>)?([\w.-]{1,128})"
    r"(?:<\uff5ctool\u2581sep\uff5c>|\s*\n```json\n)"
)
DEEPSEEK_END = "<\uff5ctool\u2581call\u2581end\uff5c>"
NAME = re.compile(r"[A-Za-z_][\w.]*")
END_OF_TURN = re.compile(r"<\|(?:eom_id|eot_id|im_end|end|endoftext)\|>|</s>")


class InvalidToolCallError(ValueError):
    """A call that is malformed, or that its tool does not accept."""


def normalize_calls(value: Any) -> list[Call]:
    """Normalize one call or a list of calls to names with arguments."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = cast(dict[str, Any], value)["tool_calls"]
    items = cast(list[Any], value) if isinstance(value, list) else [value]
    return [_normalize_call(item) for item in items]


def _normalize_call(item: Any) -> Call:
    if not isinstance(item, dict):
        raise InvalidToolCallError("a call must be a JSON object with `name` and `arguments`")
    call = cast(dict[str, Any], item)
    call = call["function"] if isinstance(call.get("function"), dict) else call
    name, arguments = call.get("name"), call.get("arguments", call.get("parameters", {}))
    if isinstance(arguments, str):  # OpenAI's format
        arguments = read_json(arguments, "whole")
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise InvalidToolCallError("a call must be a JSON object with `name` and `arguments`")
    return {"name": name, "arguments": cast(dict[str, Any], arguments)}


def parse_tagged(text: str, opening: str, closing: str) -> list[Call]:
    calls: list[Call] = []
    for piece in text.split(opening)[1:]:
        body, close, _ = piece.partition(closing)
        if not close:
            raise InvalidToolCallError("a call is not closed")
        calls += _parse_xml(body) or normalize_calls(read_json(body, "whole"))
    return calls


def _parse_json(text: str) -> list[Call]:
    try:
        return normalize_calls(read_json(text, "first"))
    except JsonNotFoundError:
        return []


def _parse_llama(text: str) -> list[Call]:
    """After the tag, or from the first character on: objects with semicolons between them."""
    _, tag, after = text.partition(LLAMA)
    body = (after if tag else text).strip()
    if not body.startswith(("{", "[")):
        return []
    return [call for part in _decode_objects(END_OF_TURN.split(body)[0]) for call in normalize_calls(part)]


def _decode_objects(text: str) -> list[Any]:
    decoder, found, at = json.JSONDecoder(), list[Any](), 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise InvalidToolCallError(f"a call is no JSON: {error}") from None
        found.append(value)
        at += len(text[at:]) - len(text[at:].lstrip("; \n\t"))
    return found


def _parse_mistral(text: str) -> list[Call]:
    """A list of calls after the marker, or name[ARGS]{...} after each marker."""
    named = list(MISTRAL_CALL.finditer(text))
    if named:
        ends = [call.start() for call in named[1:]] + [len(text)]
        return [
            {"name": call[1], "arguments": _parse_arguments(END_OF_TURN.split(text[call.end() : end])[0])}
            for call, end in zip(named, ends, strict=True)
        ]
    _, mark, after = text.partition(MISTRAL)
    return normalize_calls(read_json(END_OF_TURN.split(after)[0], "whole")) if mark else []


def _parse_arguments(text: str) -> dict[str, Any]:
    value = read_json(text.strip() or "{}", "whole")
    if not isinstance(value, dict):
        raise InvalidToolCallError("the arguments of a call must be a JSON object")
    return cast(dict[str, Any], value)


def _parse_xml(text: str) -> list[Call]:
    """<function=name><parameter=key>value</parameter></function>. A value is JSON if it parses, else text."""
    return [
        {
            "name": name,
            "arguments": {
                key: _json_or_text(value.removesuffix("\n"))
                for key, value in _find_elements(PARAMETER, "</parameter>", body)
            },
        }
        for name, body in _find_elements(FUNCTION, "</function>", text)
    ]


def _find_elements(opening: "re.Pattern[str]", closing: str, text: str) -> Iterator[tuple[str, str]]:
    """The name and the body of each element. A regular expression that spans elements would search the rest
    of the text once for each opening without a closing, which is quadratic."""
    at = 0
    while found := opening.search(text, at):
        end = text.find(closing, found.end())
        if end < 0:
            return
        yield found[1], text[found.end() : end]
        at = end + len(closing)


def _json_or_text(text: str) -> Any:
    try:
        return read_json(text.strip(), "whole")
    except JsonNotFoundError:
        return text


def _parse_deepseek(text: str) -> list[Call]:
    return [
        {"name": name, "arguments": _parse_arguments(body.rstrip().removesuffix("\n```"))}
        for name, body in _find_elements(DEEPSEEK, DEEPSEEK_END, text)
    ]


def _parse_pythonic(text: str) -> list[Call]:
    """[f(a=1), g()], or one call. It is parsed, never executed, and arguments must be literals."""
    body = END_OF_TURN.split(text.replace("<|python_start|>", "").replace("<|python_end|>", ""))[0].strip()
    if not re.match(r"\[?\s*[A-Za-z_][\w.]*\(", body):
        return []
    try:
        tree = ast.parse(body, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InvalidToolCallError(f"a call cannot be parsed: {type(error).__name__}") from None
    return [_parse_python_call(call) for call in (tree.elts if isinstance(tree, ast.List) else [tree])]


def _parse_python_call(call: ast.expr) -> Call:
    if not isinstance(call, ast.Call) or call.args or any(word.arg is None for word in call.keywords):
        raise InvalidToolCallError("a call must use keyword arguments only")
    try:
        values = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise InvalidToolCallError("an argument is not a literal") from None
    name = ast.unparse(call.func)
    if not NAME.fullmatch(name):
        raise InvalidToolCallError("the called function has no name")
    return {"name": name, "arguments": values}


PARSERS: Mapping[str, Callable[[str], list[Call]]] = {
    "json": _parse_json,
    "openai": _parse_json,
    "llama": _parse_llama,
    "mistral": _parse_mistral,
    "qwen_xml": _parse_xml,
    "deepseek": _parse_deepseek,
    "pythonic": _parse_pythonic,
}
# The marker that identifies each notation, for `any`.
FORMAT_MARKERS = {
    "mistral": MISTRAL,
    "deepseek": "<\uff5ctool\u2581call\u2581begin\uff5c>",
    "qwen_xml": "<function=",
    "llama": LLAMA,
}


def parse_calls(text: str, notation: Format, opening: str, closing: str) -> list[Call]:
    """Parse the calls in a text, in a given notation or in the one that its markers identify."""
    if len(text) > MAX_CHARACTERS:
        raise InvalidToolCallError(f"the text is longer than {MAX_CHARACTERS:,} characters")
    if notation == "tags" or (notation == "any" and opening and opening in text):
        return parse_tagged(text, opening, closing)
    if notation != "any":
        return PARSERS[notation](text)
    marked = [name for name, mark in FORMAT_MARKERS.items() if mark in text]
    return PARSERS[marked[0]](text) if marked else _parse_pythonic(text) or _parse_json(text)
