"""The verb `data`: builds a dataset from a source or another dataset, and writes it as Parquet."""

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
from posttrain.spec.extension import DataOp, Verb
from posttrain.spec.step_params.data_params import (
    STEP_FILE_PREFIX,
    DataStepParams,
    ExtensionOperation,
    Operation,
    RowRequirement,
    SplitOperation,
)

EXTENSION = Verb(
    name="data", summary="A dataset as Parquet files, one for each part.", version=2, stack=("duckdb",)
)


def run(context: StepContext[DataStepParams]) -> None:
    import duckdb

    connection = duckdb.connect(":memory:", config={"threads": "1"})
    try:
        _create_rows_table(context, connection)
        operations = context.params.operations
        for done, operation in enumerate(operations):
            context.events.progress(done, len(operations), "steps")
            _apply_step(context, connection, operation)
        _write(context, connection)
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        advice = "fix the data, or download or save a truncated or corrupt file again"
        raise StepError(f"cannot build the dataset: {reason}", advice) from None


def _create_rows_table(context: StepContext[DataStepParams], connection: Any) -> None:
    """Create the table `rows`, with the position of each row."""
    source = context.params.source
    if source is None:
        _load_product(connection, "source", context.inputs["rows"], context.part("rows"))
    else:
        extension = CATALOG.find("source", source.name)
        assert extension is not None, f"the catalog has no source {source.name}"
        params = read_extension_params(extension.params, source.params)
        CATALOG.run("source", source.name)(params, context, connection)
    connection.execute(
        "CREATE TABLE rows AS SELECT *, row_number() OVER () AS __row, 'all' AS __part FROM source"
    )
    widen_messages(connection, "rows")


def _load_product(connection: Any, table: str, folder: Path, part: str | None) -> None:
    paths = [folder / f"{name}.parquet" for name in ([part] if part else dataset_parts(folder))]
    load_parquet(connection, table, paths)


def _apply_step(context: StepContext[DataStepParams], connection: Any, operation: Operation) -> None:
    other = None if isinstance(operation, SplitOperation) else operation.other
    if other is not None:
        role = f"other:{other}"
        _load_product(connection, "given", context.inputs[role], context.part(role))
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


def _write(context: StepContext[DataStepParams], connection: Any) -> None:
    part_rows = connection.execute("SELECT __part FROM rows GROUP BY __part ORDER BY min(__row)").fetchall()
    parts = sorted((str(row[0]) for row in part_rows), key=lambda part: (part != "train", part))
    for part in parts or ["all"]:
        query = "SELECT * EXCLUDE (__row, __part) FROM rows WHERE __part = $1 ORDER BY __row"
        write_parquet(connection, query, [part], context.out / f"{part}.parquet")
        count = connection.execute("SELECT count(*) FROM rows WHERE __part = ?", [part]).fetchone()[0]
        context.facts[f"rows.{part}"] = count
    (context.out / "parts.txt").write_text("\n".join(parts or ["all"]) + "\n", encoding="utf-8")
