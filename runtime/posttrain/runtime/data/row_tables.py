"""Operations on the table `rows`, which data ops change.

The table has two hidden columns: `__row`, the index, and `__part`, the part that a split puts the row in.
"""

from collections.abc import Sequence
from typing import Any

from posttrain.spec.column_types import Columns
from posttrain.spec.sql_types import column_type, quote_identifier


def replace_rows(connection: Any, query: str, values: Sequence[Any] = ()) -> None:
    """Replace the table `rows` with the result of a query."""
    connection.execute(f"CREATE TABLE replacement AS {query}", list(values))
    connection.execute("DROP TABLE rows")
    connection.execute("ALTER TABLE replacement RENAME TO rows")


def with_column(connection: Any, name: str, expression: str, values: Sequence[Any] = ()) -> None:
    """Add a column to the table `rows`, or replace it."""
    existing = [str(row[0]) for row in connection.execute("DESCRIBE rows").fetchall()]
    others = f"* EXCLUDE ({quote_identifier(name)})" if name in existing else "*"
    replace_rows(connection, f"SELECT {others}, {expression} AS {quote_identifier(name)} FROM rows", values)


def drop_rows(connection: Any, indices: Sequence[int]) -> None:
    """Drop the rows with these values of `__row`."""
    import pyarrow

    table = pyarrow.table({"index": pyarrow.array(indices, type=pyarrow.int64())})
    connection.register("dropped_rows", table)
    replace_rows(connection, "SELECT * FROM rows WHERE __row NOT IN (SELECT index FROM dropped_rows)")
    connection.unregister("dropped_rows")


def read_texts(connection: Any, table: str, columns: Sequence[str]) -> list[tuple[int, str]]:
    """The `__row` and the joined text of these columns for each row, in order.

    The text of messages is what their turns say: reasoning, content, and the calls of tools.
    """
    types = {str(row[0]): str(row[1]) for row in connection.execute(f"DESCRIBE {table}").fetchall()}
    joined = ", ".join(text_expression(name, types[name]) for name in columns)
    query = f"SELECT __row, concat_ws(chr(10), {joined}) FROM {table} ORDER BY __row"
    return [(int(index), str(text or "")) for index, text in connection.execute(query).fetchall()]


def text_expression(name: str, type: str) -> str:
    """An SQL expression for a column's text."""
    if column_type(type) == "messages":
        call = "concat_ws(' ', call.function.name, call.function.arguments)"
        calls = f"array_to_string(list_transform(turn.tool_calls, lambda call: {call}), chr(10))"
        words = f"concat_ws(chr(10), turn.reasoning_content, turn.content, {calls})"
        return f"array_to_string(list_transform({quote_identifier(name)}, lambda turn: {words}), chr(10))"
    return f"CAST({quote_identifier(name)} AS VARCHAR)"


def check_columns(columns: Columns, names: Sequence[str], *types: str) -> None:
    """Raise ValueError when one of the columns is missing or has another type."""
    for name in names:
        if name not in columns:
            raise ValueError(f"missing column `{name}`; the columns are {', '.join(columns)}")
        if columns[name] not in types:
            raise ValueError(f"`{name}` has type {columns[name]}; expected {' or '.join(types)}")
