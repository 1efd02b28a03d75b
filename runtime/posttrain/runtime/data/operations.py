"""Applies the steps of a dataset to the table `rows`, and writes its parts as Parquet files."""

from pathlib import Path
from typing import Any

from posttrain.runtime.catalog import CATALOG, load_entry
from posttrain.runtime.data.row_split import split_rows
from posttrain.runtime.duckdb_files import load_parquet, write_parquet
from posttrain.runtime.errors import StepError
from posttrain.runtime.message_columns import widen_messages
from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.rows_io import dataset_parts
from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import DataOp
from posttrain.spec.step_params.data_params import (
    STEP_FILE_PREFIX,
    ExtensionOperation,
    Operation,
    RowRequirement,
    SplitOperation,
)


def create_rows(connection: Any) -> None:
    """Create the table `rows` from the table `source`, with the position of each row."""
    connection.execute(
        "CREATE TABLE rows AS SELECT *, row_number() OVER () AS __row, 'all' AS __part FROM source"
    )
    widen_messages(connection, "rows")


def load_product(connection: Any, table: str, folder: Path, part: str | None) -> None:
    paths = [folder / f"{name}.parquet" for name in ([part] if part else dataset_parts(folder))]
    load_parquet(connection, table, paths)


def apply_operation(context: StepContext[Any], connection: Any, operation: Operation) -> None:
    other = None if isinstance(operation, SplitOperation) else operation.other
    if other is not None:
        role = f"other:{other}"
        load_product(connection, "given", context.inputs[role], context.part(role))
        connection.execute(
            "CREATE OR REPLACE TABLE other AS"
            " SELECT *, row_number() OVER () AS __row, 'all' AS __part FROM given"
        )
        widen_messages(connection, "other")
    if isinstance(operation, SplitOperation):
        context.facts.update(split_rows(connection, operation, context.events))
    elif isinstance(operation, ExtensionOperation):
        extension = CATALOG.find("data", operation.op)
        assert extension is not None, f"the catalog has no data op {operation.op}"
        params = read_extension_params(extension.params, operation.params)
        assert isinstance(extension, DataOp), f"{operation.op} is a data op"
        files = {name: context.files[f"{STEP_FILE_PREFIX}{name}"] for name in extension.files(params)}
        load_entry(operation.entry)(params, connection, operation.seed, *([files] if files else []))
    else:
        if operation.needs is not None:
            _check_count(connection, operation.needs)
        connection.execute(f"CREATE TABLE following AS {operation.query}")
        connection.execute("DROP TABLE rows")
        connection.execute("ALTER TABLE following RENAME TO rows")
    widen_messages(connection, "rows")


def _check_count(connection: Any, needs: RowRequirement) -> None:
    """Raise StepError if no part of the table has as many rows as a step takes."""
    count = connection.execute(
        f"SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM {needs.table} GROUP BY __part)"
    ).fetchone()[0]
    if count < needs.rows:
        raise StepError(
            f"`{needs.step}` takes {needs.rows} rows, but only {count} are available",
            "request fewer rows or a share such as 0.5, or make earlier steps keep more rows",
        )


def write_parts(connection: Any, out: Path) -> dict[str, int]:
    """Write the parts of the table `rows`. Returns their numbers of rows."""
    part_rows = connection.execute("SELECT __part FROM rows GROUP BY __part ORDER BY min(__row)").fetchall()
    parts = sorted((str(row[0]) for row in part_rows), key=lambda part: (part != "train", part))
    counts: dict[str, int] = {}
    for part in parts or ["all"]:
        query = "SELECT * EXCLUDE (__row, __part) FROM rows WHERE __part = $1 ORDER BY __row"
        write_parquet(connection, query, [part], out / f"{part}.parquet")
        count = connection.execute("SELECT count(*) FROM rows WHERE __part = ?", [part]).fetchone()[0]
        counts[part] = count
    (out / "parts.txt").write_text("\n".join(parts or ["all"]) + "\n", encoding="utf-8")
    return counts
