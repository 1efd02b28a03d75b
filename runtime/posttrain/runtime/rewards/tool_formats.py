"""How models write the calls of tools: a reader for each notation, all to a name with its arguments.

A text without a call gives none; one that is not written as it should be raises ValueError.
"""

import ast
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from posttrain.runtime.rewards.json_text import NoJson, read_json

Call = dict[str, Any]
Format = Literal["tags", "json", "llama", "mistral", "qwen_xml", "deepseek", "openai", "pythonic", "any"]
CHARACTERS_AT_MOST = 200_000
LLAMA = "<|python_tag|>"
MISTRAL = "[TOOL_CALLS]"
MISTRAL_CALL = re.compile(r"\[TOOL_CALLS\]\s*([\w.-]{1,128})\s*(?:\[CALL_ID\][^\[]{0,64})?\[ARGS\]")
FUNCTION = re.compile(r"<function=([^<>\n]{1,128})>(.*?)</function>", re.DOTALL)
PARAMETER = re.compile(r"<parameter=([^<>\n]{1,128})>\n?(.*?)\n?</parameter>", re.DOTALL)
DEEPSEEK = re.compile(
    r"<\uff5ctool\u2581call\u2581begin\uff5c>(?:function<\uff5ctool\u2581sep\uff5c>)?([\w.-]{1,128})"
    r"(?:<\uff5ctool\u2581sep\uff5c>|\s*\n```json\n)(.*?)(?:\n```)?\s*<\uff5ctool\u2581call\u2581end\uff5c>",
    re.DOTALL,
)
NAME = re.compile(r"[A-Za-z_][\w.]*")
TURN = re.compile(r"<\|(?:eom_id|eot_id|im_end|end|endoftext)\|>|</s>")


class BadCall(ValueError):
    """A call that is not written as one, or that its tool does not take."""


def listed(value: Any) -> list[Call]:
    """One call or several, each with its name and its arguments as an object."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = cast(dict[str, Any], value)["tool_calls"]
    items = cast(list[Any], value) if isinstance(value, list) else [value]
    return [_call(item) for item in items]


def _call(item: Any) -> Call:
    if not isinstance(item, dict):
        raise BadCall("a call is a JSON object with `name` and `arguments`")
    given = cast(dict[str, Any], item)
    given = given["function"] if isinstance(given.get("function"), dict) else given
    name, arguments = given.get("name"), given.get("arguments", given.get("parameters", {}))
    if isinstance(arguments, str):  # as OpenAI writes them
        arguments = read_json(arguments, "whole")
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise BadCall("a call is a JSON object with `name` and `arguments`")
    return {"name": name, "arguments": cast(dict[str, Any], arguments)}


def between_tags(text: str, opening: str, closing: str) -> list[Call]:
    found: list[Call] = []
    for piece in text.split(opening)[1:]:
        body, close, _ = piece.partition(closing)
        if not close:
            raise BadCall("a call is not closed")
        found += _xml(body) if FUNCTION.search(body) else listed(read_json(body, "whole"))
    return found


def _json(text: str) -> list[Call]:
    try:
        return listed(read_json(text, "first"))
    except NoJson:
        return []


def _llama(text: str) -> list[Call]:
    """After the tag, or from the first character on: objects with semicolons between them."""
    _, tag, after = text.partition(LLAMA)
    body = (after if tag else text).strip()
    if not body.startswith(("{", "[")):
        return []
    return [call for part in _objects(TURN.split(body)[0]) for call in listed(part)]


def _objects(text: str) -> list[Any]:
    decoder, found, at = json.JSONDecoder(), list[Any](), 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise BadCall(f"a call is no JSON: {error}") from None
        found.append(value)
        at += len(text[at:]) - len(text[at:].lstrip("; \n\t"))
    return found


def _mistral(text: str) -> list[Call]:
    """A list after the mark, or name[ARGS]{...} after each."""
    named = list(MISTRAL_CALL.finditer(text))
    if named:
        ends = [call.start() for call in named[1:]] + [len(text)]
        return [
            {"name": call[1], "arguments": _arguments(TURN.split(text[call.end() : end])[0])}
            for call, end in zip(named, ends, strict=True)
        ]
    _, mark, after = text.partition(MISTRAL)
    return listed(read_json(TURN.split(after)[0], "whole")) if mark else []


def _arguments(text: str) -> dict[str, Any]:
    value = read_json(text.strip() or "{}", "whole")
    if not isinstance(value, dict):
        raise BadCall("the arguments of a call are a JSON object")
    return cast(dict[str, Any], value)


def _xml(text: str) -> list[Call]:
    """<function=name><parameter=key>value</parameter></function>: values are JSON where they can be."""
    return [
        {"name": call[1], "arguments": {part[1]: _loose(part[2]) for part in PARAMETER.finditer(call[2])}}
        for call in FUNCTION.finditer(text)
    ]


def _loose(text: str) -> Any:
    try:
        return read_json(text.strip(), "whole")
    except NoJson:
        return text


def _deepseek(text: str) -> list[Call]:
    return [{"name": call[1], "arguments": _arguments(call[2])} for call in DEEPSEEK.finditer(text)]


def _pythonic(text: str) -> list[Call]:
    """[f(a=1), g()], or one call: parsed, and never run; only literals are arguments."""
    body = TURN.split(text.replace("<|python_start|>", "").replace("<|python_end|>", ""))[0].strip()
    if not re.match(r"\[?\s*[A-Za-z_][\w.]*\(", body):
        return []
    try:
        tree = ast.parse(body, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadCall(f"a call could not be read: {type(error).__name__}") from None
    return [_parsed(call) for call in (tree.elts if isinstance(tree, ast.List) else [tree])]


def _parsed(call: ast.expr) -> Call:
    if not isinstance(call, ast.Call) or call.args or any(word.arg is None for word in call.keywords):
        raise BadCall("a call names each of its arguments")
    try:
        values = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise BadCall("an argument is no literal") from None
    name = ast.unparse(call.func)
    if not NAME.fullmatch(name):
        raise BadCall("what is called has no name")
    return {"name": name, "arguments": values}


READERS: Mapping[str, Callable[[str], list[Call]]] = {
    "json": _json,
    "openai": _json,
    "llama": _llama,
    "mistral": _mistral,
    "qwen_xml": _xml,
    "deepseek": _deepseek,
    "pythonic": _pythonic,
}
# The marks by which a notation shows itself, for `any`.
MARKED = {
    "mistral": MISTRAL,
    "deepseek": "<\uff5ctool\u2581call\u2581begin\uff5c>",
    "qwen_xml": "<function=",
    "llama": LLAMA,
}


def written(text: str, notation: Format, opening: str, closing: str) -> list[Call]:
    """The calls in a text by one notation, or by the one whose marks are in it."""
    if len(text) > CHARACTERS_AT_MOST:
        raise BadCall(f"a text of more than {CHARACTERS_AT_MOST:,} characters")
    if notation == "tags" or (notation == "any" and opening and opening in text):
        return between_tags(text, opening, closing)
    if notation != "any":
        return READERS[notation](text)
    marked = [name for name, mark in MARKED.items() if mark in text]
    return READERS[marked[0]](text) if marked else _pythonic(text) or _json(text)
