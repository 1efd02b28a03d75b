"""Rows of Python's values into the database."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.compiler.data.sql import quoted
from posttrain.runtime.sources.casting import from_json
from posttrain.spec.types import Columns


def from_values(connection: Any, rows: Sequence[Mapping[str, Any]], columns: Columns) -> None:
    """Make the table `source` of these rows, in their order."""
    import pyarrow

    given = pyarrow.table(
        {
            name: pyarrow.array([_written(row.get(name)) for row in rows], type=pyarrow.string())
            for name in columns
        }
    )
    connection.register("given_values", given)
    listed = ", ".join(f"CAST({quoted(name)} AS JSON) AS {quoted(name)}" for name in columns)
    connection.execute(f"CREATE OR REPLACE TABLE given AS SELECT {listed} FROM given_values")
    connection.unregister("given_values")
    from_json(connection, "given", columns)


def _written(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)
