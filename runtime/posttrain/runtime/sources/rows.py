"""Source `rows`: rows written in the recipe."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from posttrain.runtime.sources.type_inference import (
    check_declared_columns,
    find_gaps,
    infer_columns,
    turn_fields,
)
from posttrain.runtime.step_context import StepContext
from posttrain.spec.column_types import Columns, check_column_types
from posttrain.spec.extension import InferredSchema, Params, Source
from posttrain.spec.field_types import Items, checked_by


class InlineRows(Params, bare="rows"):
    rows: Items[dict[str, Any]] = Field(
        min_length=1, description="The rows, each a mapping from columns to values."
    )
    columns: Annotated[dict[str, str], Field(min_length=1), checked_by(check_column_types)] | None = Field(
        default=None,
        description="The columns to read, with their types. The default is to infer them from the rows.",
    )

    def check(self) -> None:
        places = [f"row {number}" for number in range(1, len(self.rows) + 1)]
        check_declared_columns(self.columns or {}, infer_columns(self.rows), places, self.rows)


def columns(params: InlineRows) -> Columns:
    return params.columns or infer_columns(params.rows)


def infer(params: InlineRows, contents: Sequence[bytes]) -> InferredSchema:
    places = [f"row {number}" for number in range(1, len(params.rows) + 1)]
    known = columns(params)
    return InferredSchema(
        columns=known,
        rows=len(params.rows),
        nulls=find_gaps(known, places, params.rows),
        turn_fields=turn_fields(places, params.rows),
    )


EXTENSION = Source(
    name="rows",
    summary="Read rows that are written in the recipe.",
    params=InlineRows,
    columns=columns,
    rows=lambda params: len(params.rows),
    infer=infer,
    stack=("duckdb",),
)


def run(params: InlineRows, context: StepContext, connection: Any) -> None:
    """Create the table `source`."""
    from posttrain.runtime.sources.python_rows import load_python_rows

    load_python_rows(connection, params.rows, columns(params))
