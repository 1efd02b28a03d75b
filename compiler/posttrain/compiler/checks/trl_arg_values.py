"""What is wrong with a value that is given for an argument of TRL, or for a key within one: plain data."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.parsing.validation_diagnostics import describe_node
from posttrain.compiler.text.yaml_tree import KeyPath, Node
from posttrain.spec.record import record

# What a value of the tree is called in the table; a whole number also stands for a number.
_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "text"),
    (dict, "mapping"),
)
_TYPE_WORDS = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "text": "text",
    "mapping": "a mapping",
    "null": "null",
    "any": "anything",
}
_PLURALS = {"integer": "whole numbers", "number": "numbers", "mapping": "mappings"}


@record(kw_only=True)
class Problem:
    kind: Literal["unknown", "wrong", "reserved", "unread"]
    path: KeyPath
    message: str
    help: str = ""
    # What to write instead, of the key or of the value.
    replace: str | None = None
    # Whether it is the key that is wrong, and not its value.
    key: bool = True


def value_problems(
    name: str, value: Any, entry: Mapping[str, Any], path: KeyPath, found: Node
) -> Iterator[Problem]:
    """A value of a type, or out of the choices, that the table does not have for it."""
    kinds, doc = entry["type"], entry.get("doc", "")
    if not has_type(value, kinds):
        message = f"`{name}` takes {describe_types(kinds)}; this is {describe_node(found)}"
        yield Problem(kind="wrong", path=path, message=message, help=doc, key=False)
    elif isinstance(value, str) and value not in entry.get("choices", (value,)):
        help, meant = hint(value, entry["choices"], what="values here")
        message = f"`{value}` is none of the values that `{name}` takes"
        yield Problem(kind="wrong", path=path, message=message, help=help, replace=meant, key=False)


def has_type(value: Any, kinds: list[str]) -> bool:
    if "any" in kinds:
        return True
    if value is None:
        return "null" in kinds
    if isinstance(value, list):
        inner = [kind[5:-1] for kind in kinds if kind.startswith("list<")]
        return bool(inner) and all(has_type(item, inner) for item in value)
    written = next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), "")
    return written in kinds or (written == "integer" and "number" in kinds)


def describe_types(kinds: list[str]) -> str:
    """The types in words. A class that no recipe can write is not among them."""
    if set(kinds) <= {"null"}:
        return "nothing that a recipe can write"
    return " or ".join(_describe_type(kind) for kind in kinds)


def _describe_type(kind: str) -> str:
    return f"a list of {_plural(kind[5:-1])}" if kind.startswith("list<") else _TYPE_WORDS[kind]


def _plural(kind: str) -> str:
    if kind.startswith("list<"):
        return f"lists of {_plural(kind[5:-1])}"
    return _PLURALS.get(kind, _TYPE_WORDS[kind])
