"""Loads rows of Python values into the database."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.sources.column_casting import load_json_columns
from posttrain.spec.column_types import Columns
from posttrain.spec.sql_types import quote_identifier


def load_python_rows(connection: Any, rows: Sequence[Mapping[str, Any]], columns: Columns) -> None:
    """Create the table `source` from these rows, in order."""
    import pyarrow

    table = pyarrow.table(
        {
            name: pyarrow.array([_to_json(row.get(name)) for row in rows], type=pyarrow.string())
            for name in columns
        }
    )
    connection.register("input_values", table)
    listed = ", ".join(
        f"CAST({quote_identifier(name)} AS JSON) AS {quote_identifier(name)}" for name in columns
    )
    connection.execute(f"CREATE OR REPLACE TABLE input_rows AS SELECT {listed} FROM input_values")
    connection.unregister("input_values")
    load_json_columns(connection, "input_rows", columns)


def _to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)
