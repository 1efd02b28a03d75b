"""Checks that no row has a turn with a field that would be lost, such as the calls of tools."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.spec.message_fields import MESSAGE_FIELDS, describe_field, lost_field
from posttrain.spec.sql_types import quote_identifier

# As in `message_fields.lost_field`.
_EMPTY_JSON = "'', '[]', '{}'"


def check_turn_fields(
    connection: Any, table: str, column: str, known: Sequence[str] = MESSAGE_FIELDS, advice: str = ""
) -> None:
    """Raise StepError for the first row of a table with a turn that has other fields with a value."""
    value = f"to_json({quote_identifier(column)})"
    names = ", ".join(_sql_string(name) for name in known)
    pointer = "concat('/', replace(replace(field, '~', '~0'), '/', '~1'))"
    has_value = f"coalesce(turn ->> {pointer}, '') NOT IN ({_EMPTY_JSON})"
    lost = f"list_filter(json_keys(turn), lambda field: field NOT IN ({names}) AND {has_value})"
    found = connection.execute(
        f"SELECT number, fields[1] FROM (SELECT number,"
        f" flatten(list_transform(CAST(turns AS JSON[]), lambda turn: {lost})) AS fields"
        f" FROM (SELECT {value} AS turns, row_number() OVER () AS number FROM {table})"
        " WHERE json_type(turns) = 'ARRAY') WHERE len(fields) > 0 ORDER BY number LIMIT 1"
    ).fetchone()
    if found is not None:
        raise _lost(found[0], column, str(found[1]), advice)


def check_row_turns(rows: Iterable[Mapping[str, Any]], column: str) -> None:
    """Raise StepError for the first row with a message that has other fields with a value."""
    for number, row in enumerate(rows, 1):
        turns: Any = row[column]
        for turn in turns if isinstance(turns, list) else ():
            field = lost_field(turn)
            if field is not None:
                raise _lost(number, column, field, "")


def _lost(row: int, column: str, field: str, advice: str) -> StepError:
    return StepError(
        f"row {row}: a turn of `{column}` has the field {describe_field(field)}, which would be lost",
        advice
        or "filter out such rows, or name the fields that the model does not need: declare the column as"
        " `any`, and add the step `conversations: {column: ..., role_key: role, content_key: content,"
        " ignored_keys: [...]}`",
    )


def _sql_string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
