"""Finds turns with more fields than role and content, and refuses those with fields that would be lost."""

from collections.abc import Iterable, Mapping
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.spec.message_fields import describe_field, lost_field
from posttrain.spec.sql_types import quote_identifier

# As in `message_fields.is_empty`.
_EMPTY_JSON = "'', '[]', '{}'"
LOST_FIELD_ADVICE = (
    "filter out such rows, or name the fields that the model does not need: declare the column as `any`, and"
    " add the step `conversations: {column: ..., role_key: role, content_key: content, ignored_keys: [...]}`"
)


def has_other_fields(connection: Any, table: str, column: str) -> bool:
    """Whether a turn of a column has a value for another field than `role` and `content`."""
    value = f"to_json({quote_identifier(column)})"
    pointer = "concat('/', replace(replace(field, '~', '~0'), '/', '~1'))"
    has_value = f"coalesce(turn ->> {pointer}, '') NOT IN ({_EMPTY_JSON})"
    other = f"list_filter(json_keys(turn), lambda field: field NOT IN ('role', 'content') AND {has_value})"
    turns = f"SELECT {value} AS turns FROM {table}"
    fields = f"flatten(list_transform(CAST(turns AS JSON[]), lambda turn: {other}))"
    found = connection.execute(
        f"SELECT 1 FROM (SELECT {fields} AS fields FROM ({turns}) WHERE json_type(turns) = 'ARRAY')"
        " WHERE len(fields) > 0 LIMIT 1"
    ).fetchone()
    return found is not None


def check_row_turns(rows: Iterable[Mapping[str, Any]], column: str, first: int = 1) -> None:
    """Raise StepError for the first row with a message that has other fields with a value.

    `first` is the number of the first row.
    """
    for number, row in enumerate(rows, first):
        turns: Any = row[column]
        for turn in turns if isinstance(turns, list) else ():
            field = lost_field(turn)
            if field is not None:
                raise StepError(
                    f"row {number}: a turn of `{column}` has the field {describe_field(field)}, which would"
                    " be lost",
                    LOST_FIELD_ADVICE,
                )
