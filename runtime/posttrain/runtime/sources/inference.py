"""The columns of rows that are at hand: their types from their values, and where they have none."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from posttrain.spec.extension import Gap
from posttrain.spec.types import Columns, Type, accepts

_NOTHING = "nothing"  # the type of a value that is null: it fits every other


def columns_of(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """A type for each column that some row has, in order of appearance."""
    found: Columns = {}
    for row in rows:
        for name, value in row.items():
            found[name] = _joined(found.get(name, _NOTHING), type_of(value))
    return {name: "any" if _NOTHING in type else type for name, type in found.items()}


_MESSAGE = (
    "a message has `role` and `content`, both text, and nothing beside: leave the type out, and the step"
    " `conversations: {column: ..., role: role, content: content}` makes messages of turns that have more"
)


def type_of(value: Any) -> Type:
    match value:
        case None:
            return _NOTHING
        case bool():
            return "boolean"
        case int():
            return "integer" if -(2**63) <= value < 2**63 else "any"
        case float():
            return "number"
        case str():
            return "text"
        case list():
            return _list_type(cast(list[Any], value))
        case _:
            return "any"


def _list_type(values: list[Any]) -> Type:
    if values and all(_is_turn(value) for value in values):
        return "messages"
    type = _NOTHING
    for value in values:
        type = _joined(type, type_of(value))
    return f"list<{type}>"


def _is_turn(value: Any) -> bool:
    """A message: its role and its content, both text, and nothing beside."""
    turn = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    return turn.keys() == {"role", "content"} and all(isinstance(part, str) for part in turn.values())


def _joined(left: Type, right: Type) -> Type:
    """The narrowest type that holds values of both."""
    if left == right or right == _NOTHING:
        return left
    if left == _NOTHING:
        return right
    if {left, right} == {"integer", "number"}:
        return "number"
    if left.startswith("list<") and right.startswith("list<"):
        return f"list<{_joined(left[5:-1], right[5:-1])}>"
    empty = f"list<{_NOTHING}>"
    if empty in (left, right) and "messages" in (left, right):
        return "messages"
    return "any"


def gaps_of(columns: Columns, places: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> dict[str, Gap]:
    """The columns that some row leaves empty, with the first such row and their number."""
    found: dict[str, Gap] = {}
    for name in columns:
        empty = [place for place, row in zip(places, rows, strict=True) if row.get(name) is None]
        if empty:
            found[name] = Gap(first=empty[0], rows=len(empty), of=len(rows))
    return found


def held_to(declared: Columns, found: Columns) -> None:
    """ValueError when a declared column is not there, or is of a type that cannot be read as declared."""
    for name, type in declared.items():
        if name not in found:
            raise ValueError(f"the rows have no column `{name}`; they have {', '.join(found) or 'none'}")
        if not readable(type, found[name]):
            raise ValueError(misdeclared(name, type, found[name]))


def misdeclared(name: str, type: Type, holds: str) -> str:
    """What is wrong with a column that holds something else, and what messages must be."""
    message = f"the column `{name}` is declared as {type}, and holds {holds}"
    return f"{message}; {_MESSAGE}" if type == "messages" else message


def readable(wanted: Type, given: Type) -> bool:
    """Whether a value of the given type can be read as the wanted one without a loss."""
    scalars = ("integer", "number", "boolean")
    return wanted == "any" or accepts(wanted, given) or (wanted == "text" and given in scalars)
