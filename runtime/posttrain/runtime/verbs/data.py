"""The verb `data`: builds a dataset from a source or another dataset, and writes it as Parquet."""

from typing import Any

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.data.operations import apply_operation, create_rows, load_product, write_parts
from posttrain.runtime.errors import StepError
from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Verb
from posttrain.spec.step_params.data_params import DataStepParams

EXTENSION = Verb(
    name="data", summary="A dataset as Parquet files, one for each part.", version=2, stack=("duckdb",)
)


def run(context: StepContext[DataStepParams]) -> None:
    import duckdb

    if context.params.window_rows is not None:
        from posttrain.runtime.streams.open_stream import list_stream

        list_stream(context, context.params.window_rows)
        return
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    try:
        _load_source(context, connection)
        create_rows(connection)
        operations = context.params.operations
        for done, operation in enumerate(operations):
            context.events.progress(done, len(operations), "steps")
            apply_operation(context, connection, operation)
        counts = write_parts(connection, context.out)
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        advice = "fix the data, or download or save a truncated or corrupt file again"
        raise StepError(f"cannot build the dataset: {reason}", advice) from None
    context.facts.update({f"rows.{part}": count for part, count in counts.items()})


def _load_source(context: StepContext[DataStepParams], connection: Any) -> None:
    """Create the table `source`."""
    source = context.params.source
    if source is None:
        load_product(connection, "source", context.inputs["rows"], context.part("rows"))
        return
    extension = CATALOG.find("source", source.name)
    assert extension is not None, f"the catalog has no source {source.name}"
    params = read_extension_params(extension.params, source.params)
    CATALOG.run("source", source.name)(params, context, connection)
