"""The columns of rows that are at hand: their types from their values, and where they have none."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from posttrain.spec.column_types import Columns, Type, is_assignable
from posttrain.spec.extension import NullStats

_NULL = "nothing"  # the type of a value that is null: it fits every other


def infer_columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """A type for each column that some row has, in order of appearance."""
    found: Columns = {}
    for row in rows:
        for name, value in row.items():
            found[name] = _join_types(found.get(name, _NULL), type_of(value))
    return {name: "any" if _NULL in type else type for name, type in found.items()}


_MESSAGE_ADVICE = (
    "a message has `role` and `content`, both text, and nothing beside: leave the type out, and the step"
    " `conversations: {column: ..., role: role, content: content}` makes messages of turns that have more"
)


def type_of(value: Any) -> Type:
    match value:
        case None:
            return _NULL
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
    type = _NULL
    for value in values:
        type = _join_types(type, type_of(value))
    return f"list<{type}>"


def _is_turn(value: Any) -> bool:
    """A message: its role and its content, both text, and nothing beside."""
    turn = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    return turn.keys() == {"role", "content"} and all(isinstance(part, str) for part in turn.values())


def _join_types(left: Type, right: Type) -> Type:
    """The narrowest type that holds values of both."""
    if left == right or right == _NULL:
        return left
    if left == _NULL:
        return right
    if {left, right} == {"integer", "number"}:
        return "number"
    if left.startswith("list<") and right.startswith("list<"):
        return f"list<{_join_types(left[5:-1], right[5:-1])}>"
    empty = f"list<{_NULL}>"
    if empty in (left, right) and "messages" in (left, right):
        return "messages"
    return "any"


def find_gaps(
    columns: Columns, places: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> dict[str, NullStats]:
    """The columns that some row leaves empty, with the first such row and their number."""
    found: dict[str, NullStats] = {}
    for name in columns:
        empty = [place for place, row in zip(places, rows, strict=True) if row.get(name) is None]
        if empty:
            found[name] = NullStats(first_row=empty[0], null_rows=len(empty), rows_checked=len(rows))
    return found


def check_declared_columns(declared: Columns, found: Columns) -> None:
    """ValueError when a declared column is not there, or is of a type that cannot be read as declared."""
    for name, type in declared.items():
        if name not in found:
            raise ValueError(f"the rows have no column `{name}`; they have {', '.join(found) or 'none'}")
        if not is_readable_as(type, found[name]):
            raise ValueError(mismatch_message(name, type, found[name]))


def mismatch_message(name: str, type: Type, holds: str) -> str:
    """What is wrong with a column that holds something else, and what messages must be."""
    message = f"the column `{name}` is declared as {type}, and holds {holds}"
    return f"{message}; {_MESSAGE_ADVICE}" if type == "messages" else message


def is_readable_as(wanted: Type, given: Type) -> bool:
    """Whether a value of the given type can be read as the wanted one without a loss."""
    scalars = ("integer", "number", "boolean")
    return wanted == "any" or is_assignable(wanted, given) or (wanted == "text" and given in scalars)
