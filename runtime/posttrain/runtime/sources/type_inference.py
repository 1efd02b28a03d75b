"""Infers the types of columns, and their nulls, from the values of rows."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from posttrain.spec.column_types import Columns, Type, is_assignable
from posttrain.spec.extension import NullStats
from posttrain.spec.message_fields import lost_field
from posttrain.spec.messages import parse_message

_NULL = "nothing"  # the type of a null, assignable to every other type


# Most values of wide rows are scalars.
_SCALAR_TYPES: Mapping[type, Type] = {type(None): _NULL, bool: "boolean", float: "number", str: "text"}


def infer_columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """The type of each column that any row has, in order of appearance."""
    types: Columns = {}
    for row in rows:
        for name, value in row.items():
            found = _SCALAR_TYPES.get(type(value)) or type_of(value)
            known = types.get(name)
            if known is None:
                types[name] = found
            elif found != known:
                types[name] = _join_types(known, found)
    return {name: "any" if _NULL in type else type for name, type in types.items()}


_MESSAGE_ADVICE = (
    "a message has `role` and `content` as text, and can have `reasoning_content`, `tool_calls`,"
    " `tool_call_id`, `name`, `train` and `weight`; for turns with other keys, declare the column as `any`"
    " and add the step"
    " `conversations: {column: ..., role_key: role, content_key: content, ignored_keys: [...]}`"
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
    """Whether the value is a message: without unknown keys, and with well-formed tool calls if any."""
    if not isinstance(value, dict) or "role" not in value:
        return False
    try:
        parse_message(value)
    except ValueError:
        return False
    return True


def describe_bad_turn(name: str, places: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str | None:
    """The place of the first turn of a column that is not a message, and the cause."""
    for place, row in zip(places, rows, strict=True):
        turns: Any = row.get(name)
        for number, turn in enumerate(turns if isinstance(turns, list) else [], 1):
            try:
                parse_message(turn)
            except ValueError as error:
                return f"{place}, `{name}`, turn {number}: {error}"
    return None


def turn_fields(places: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """The fields with a value in the turns of each column of lists, with the first row that has them."""
    found: dict[str, dict[str, str]] = {}
    for place, row in zip(places, rows, strict=True):
        for name, value in row.items():
            for turn in cast(list[Any], value) if isinstance(value, list) else []:
                fields = cast(dict[str, Any], turn) if isinstance(turn, dict) else {}
                for field in fields:
                    if lost_field({field: fields[field]}, ()) is not None:
                        found.setdefault(name, {}).setdefault(field, place)
    return found


def _join_types(left: Type, right: Type) -> Type:
    """The narrowest type that both types can be assigned to."""
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
    """The columns with nulls: the first row with a null, and the number of nulls."""
    gaps: dict[str, NullStats] = {}
    for name in columns:
        empty = [place for place, row in zip(places, rows, strict=True) if row.get(name) is None]
        if empty:
            gaps[name] = NullStats(first_row=empty[0], null_rows=len(empty), rows_checked=len(rows))
    return gaps


def check_declared_columns(
    declared: Columns,
    found: Columns,
    places: Sequence[str] = (),
    rows: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Raise ValueError when a declared column is missing or cannot be read as its declared type."""
    for name, type in declared.items():
        if name not in found:
            raise ValueError(f"missing column `{name}`; the rows have {', '.join(found) or 'none'}")
        if type == "messages" and found[name] != type:
            bad = describe_bad_turn(name, places, rows)
            if bad is not None:
                raise ValueError(f"{bad}; {_MESSAGE_ADVICE}")
        if not is_readable_as(type, found[name]):
            raise ValueError(mismatch_message(name, type, found[name]))


def mismatch_message(name: str, type: Type, actual: str) -> str:
    """The error message for a column whose values do not fit its declared type."""
    message = f"the column `{name}` is declared as {type} but contains {actual}"
    return f"{message}; {_MESSAGE_ADVICE}" if type == "messages" else message


def is_readable_as(target: Type, source: Type) -> bool:
    """Whether a value of the source type can be read as the target type without loss."""
    scalars = ("integer", "number", "boolean")
    return target == "any" or is_assignable(target, source) or (target == "text" and source in scalars)
