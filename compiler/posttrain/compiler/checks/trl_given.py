"""What is wrong with a value that is given for an argument of TRL, or for a key within one: plain data."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.reading.validate import describe
from posttrain.compiler.text.tree import Node, Path
from posttrain.spec.record import record

# What a value of the tree is called in the table; a whole number also stands for a number.
_WRITTEN: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "text"),
    (dict, "mapping"),
)
_WORDS = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "text": "text",
    "mapping": "a mapping",
    "null": "null",
    "any": "anything",
}
_SEVERAL = {"integer": "whole numbers", "number": "numbers", "mapping": "mappings"}


@record(kw_only=True)
class Problem:
    what: Literal["unknown", "wrong", "owned", "unread"]
    path: Path
    message: str
    help: str = ""
    # What to write instead, of the key or of the value.
    replace: str | None = None
    # Whether it is the key that is wrong, and not its value.
    key: bool = True


def value_problems(
    name: str, value: Any, entry: Mapping[str, Any], path: Path, found: Node
) -> Iterator[Problem]:
    """A value of a type, or out of the choices, that the table does not have for it."""
    kinds, doc = entry["type"], entry.get("doc", "")
    if not fits(value, kinds):
        message = f"`{name}` takes {shown(kinds)}; this is {describe(found)}"
        yield Problem(what="wrong", path=path, message=message, help=doc, key=False)
    elif isinstance(value, str) and value not in entry.get("choices", (value,)):
        help, meant = hint(value, entry["choices"], what="values here")
        message = f"`{value}` is none of the values that `{name}` takes"
        yield Problem(what="wrong", path=path, message=message, help=help, replace=meant, key=False)


def fits(value: Any, kinds: list[str]) -> bool:
    if "any" in kinds:
        return True
    if value is None:
        return "null" in kinds
    if isinstance(value, list):
        inner = [kind[5:-1] for kind in kinds if kind.startswith("list<")]
        return bool(inner) and all(fits(item, inner) for item in value)
    written = next((name for kind, name in _WRITTEN if isinstance(value, kind)), "")
    return written in kinds or (written == "integer" and "number" in kinds)


def shown(kinds: list[str]) -> str:
    """The types in words. A class that no recipe can write is not among them."""
    if set(kinds) <= {"null"}:
        return "nothing that a recipe can write"
    return " or ".join(_shown(kind) for kind in kinds)


def _shown(kind: str) -> str:
    return f"a list of {_several(kind[5:-1])}" if kind.startswith("list<") else _WORDS[kind]


def _several(kind: str) -> str:
    if kind.startswith("list<"):
        return f"lists of {_several(kind[5:-1])}"
    return _SEVERAL.get(kind, _WORDS[kind])
