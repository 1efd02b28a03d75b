"""Rows written in the recipe itself."""

from collections.abc import Sequence
from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.sources.inference import columns_of, gaps_of, held_to
from posttrain.spec.declared import field
from posttrain.spec.extension import Content, Params, Source
from posttrain.spec.types import Columns, typed_columns


class InlineRows(Params, bare="rows"):
    rows: list[dict[str, Any]] = field(min_length=1, description="The rows, each a mapping of columns.")
    columns: dict[str, str] | None = field(
        default=None,
        min_length=1,
        check=typed_columns,
        description="Their columns with types; told from the rows when not given.",
    )

    def check(self) -> None:
        held_to(self.columns or {}, columns_of(self.rows))


def columns(params: InlineRows) -> Columns:
    return params.columns or columns_of(params.rows)


def infer(params: InlineRows, contents: Sequence[bytes]) -> Content:
    places = [f"row {number}" for number in range(1, len(params.rows) + 1)]
    known = columns(params)
    return Content(columns=known, rows=len(params.rows), gaps=gaps_of(known, places, params.rows))


EXTENSION = Source(
    name="rows",
    summary="Rows written in the recipe itself.",
    params=InlineRows,
    columns=columns,
    rows=lambda params: len(params.rows),
    infer=infer,
    stack=("duckdb",),
)


def run(params: InlineRows, context: Context, connection: Any) -> None:
    """Make the table `source`."""
    from posttrain.runtime.sources.values import from_values

    from_values(connection, params.rows, columns(params))
