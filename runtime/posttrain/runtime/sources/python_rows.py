"""Rows of Python's values into the database."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.compiler.data.sql import quote_identifier
from posttrain.runtime.sources.column_casting import load_json_columns
from posttrain.spec.column_types import Columns


def load_python_rows(connection: Any, rows: Sequence[Mapping[str, Any]], columns: Columns) -> None:
    """Make the table `source` of these rows, in their order."""
    import pyarrow

    given = pyarrow.table(
        {
            name: pyarrow.array([_to_json(row.get(name)) for row in rows], type=pyarrow.string())
            for name in columns
        }
    )
    connection.register("given_values", given)
    listed = ", ".join(
        f"CAST({quote_identifier(name)} AS JSON) AS {quote_identifier(name)}" for name in columns
    )
    connection.execute(f"CREATE OR REPLACE TABLE given AS SELECT {listed} FROM given_values")
    connection.unregister("given_values")
    load_json_columns(connection, "given", columns)


def _to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)
