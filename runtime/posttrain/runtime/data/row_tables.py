"""The table `rows`, as data ops change it. Its hidden columns are `__row`, the place, and `__part`."""

from collections.abc import Sequence
from typing import Any

from posttrain.compiler.data.sql import quote_identifier
from posttrain.spec.column_types import Columns


def replace_rows(connection: Any, query: str, values: Sequence[Any] = ()) -> None:
    """Put what a query over `rows` gives in their place."""
    connection.execute(f"CREATE TABLE following AS {query}", list(values))
    connection.execute("DROP TABLE rows")
    connection.execute("ALTER TABLE following RENAME TO rows")


def with_column(connection: Any, name: str, expression: str, values: Sequence[Any] = ()) -> None:
    """Add a column, or put another in the place of the one of that name."""
    there = [str(row[0]) for row in connection.execute("DESCRIBE rows").fetchall()]
    kept = f"* EXCLUDE ({quote_identifier(name)})" if name in there else "*"
    replace_rows(connection, f"SELECT {kept}, {expression} AS {quote_identifier(name)} FROM rows", values)


def drop_rows(connection: Any, places: Sequence[int]) -> None:
    """Leave out the rows with these places."""
    import pyarrow

    table = pyarrow.table({"place": pyarrow.array(places, type=pyarrow.int64())})
    connection.register("left_out", table)
    replace_rows(connection, "SELECT * FROM rows WHERE __row NOT IN (SELECT place FROM left_out)")
    connection.unregister("left_out")


def read_texts(connection: Any, table: str, columns: Sequence[str]) -> list[tuple[int, str]]:
    """The place of each row with its text in these columns, in order; messages as what they say."""
    types = {str(row[0]): str(row[1]) for row in connection.execute(f"DESCRIBE {table}").fetchall()}
    joined = ", ".join(text_expression(name, types[name]) for name in columns)
    query = f"SELECT __row, concat_ws(chr(10), {joined}) FROM {table} ORDER BY __row"
    return [(int(place), str(text or "")) for place, text in connection.execute(query).fetchall()]


def text_expression(name: str, type: str) -> str:
    """An SQL expression for a column's text."""
    if type.startswith("STRUCT(") and type.endswith("[]"):
        return (
            f"array_to_string(list_transform({quote_identifier(name)}, lambda turn: turn.content), chr(10))"
        )
    return f"CAST({quote_identifier(name)} AS VARCHAR)"


def check_columns(columns: Columns, names: Sequence[str], *types: str) -> None:
    """ValueError when one of the columns is not there, or of another type."""
    for name in names:
        if name not in columns:
            raise ValueError(f"there is no column `{name}` here; there are {', '.join(columns)}")
        if columns[name] not in types:
            raise ValueError(f"`{name}` is {columns[name]}; {' or '.join(types)} is wanted")
