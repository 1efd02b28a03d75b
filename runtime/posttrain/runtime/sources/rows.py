"""Rows written in the recipe itself."""

from typing import Any, cast

from pydantic import Field, model_validator

from posttrain.runtime.context import Context
from posttrain.runtime.sources.inference import columns_of, held_to
from posttrain.spec.extension import Params, Source
from posttrain.spec.types import Columns, is_type


class InlineRows(Params):
    rows: list[dict[str, Any]] = Field(min_length=1, description="The rows, each a mapping of columns.")
    columns: dict[str, str] | None = Field(
        default=None, min_length=1, description="Their columns with types; told from the rows when not given."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, given: Any) -> Any:
        """A bare list of rows stands for the whole mapping."""
        return {"rows": cast(list[Any], given)} if isinstance(given, list) else given

    @model_validator(mode="after")
    def _fit(self) -> "InlineRows":
        for name, type in (self.columns or {}).items():
            if not is_type(type):
                raise ValueError(f"`{type}` is no type for `{name}`")
        held_to(self.columns or {}, columns_of(self.rows))
        return self


def columns(params: InlineRows) -> Columns:
    return params.columns or columns_of(params.rows)


EXTENSION = Source(
    name="rows",
    summary="Rows written in the recipe itself.",
    params=InlineRows,
    columns=columns,
    rows=lambda params: len(params.rows),
    stack=("duckdb",),
)


def run(params: InlineRows, context: Context, connection: Any) -> None:
    """Make the table `source`."""
    from posttrain.runtime.sources.values import from_values

    from_values(connection, params.rows, columns(params))
