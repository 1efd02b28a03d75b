"""Checks the values of TRL arguments, and of the keys nested in them, against their types and choices."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from posttrain.compiler.parsing.validation_diagnostics import describe_node
from posttrain.compiler.text.yaml_tree import KeyPath, Node
from posttrain.spec.record import record
from posttrain.spec.suggestions import hint

# The names of the types of YAML values in the table. An integer is also a valid number.
_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "text"),
    (dict, "mapping"),
)
_TYPE_WORDS = {
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "text": "text",
    "mapping": "a mapping",
    "null": "null",
    "any": "anything",
}
_PLURALS = {"integer": "integers", "number": "numbers", "mapping": "mappings"}


@record(kw_only=True)
class Problem:
    kind: Literal["unknown", "wrong", "reserved", "unread"]
    path: KeyPath
    message: str
    help: str = ""
    # The suggested replacement of the key or the value.
    replace: str | None = None
    # Whether the problem is the key and not its value.
    key: bool = True


def value_problems(
    name: str, value: Any, entry: Mapping[str, Any], path: KeyPath, found: Node
) -> Iterator[Problem]:
    """Yield a problem if a value has the wrong type, or is not one of the choices."""
    kinds, doc = entry["type"], entry.get("doc", "")
    if not has_type(value, kinds):
        message = f"`{name}` takes {describe_types(kinds)}, not {describe_node(found)}"
        yield Problem(kind="wrong", path=path, message=message, help=doc, key=False)
    elif isinstance(value, str) and value not in entry.get("choices", (value,)):
        help, meant = hint(value, entry["choices"], what="values here")
        message = f"`{value}` is not a valid value of `{name}`"
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
    """Return the types in words, without classes that a recipe cannot express."""
    if set(kinds) <= {"null"}:
        return "no value that a recipe can express"
    return " or ".join(_describe_type(kind) for kind in kinds)


def _describe_type(kind: str) -> str:
    return f"a list of {_plural(kind[5:-1])}" if kind.startswith("list<") else _TYPE_WORDS[kind]


def _plural(kind: str) -> str:
    if kind.startswith("list<"):
        return f"lists of {_plural(kind[5:-1])}"
    return _PLURALS.get(kind, _TYPE_WORDS[kind])
