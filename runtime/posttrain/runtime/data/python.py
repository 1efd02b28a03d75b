"""Data op `python`: rows from a function of the user, in a separate process."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from posttrain.spec.column_types import Columns, check_column_types
from posttrain.spec.extension import DataOp, Params
from posttrain.spec.field_types import Items, JsonValue, Name, checked_by
from posttrain.spec.suggestions import hint


class Python(Params):
    call: str = Field(
        pattern=r"^[^:]+\.py:[A-Za-z_]\w*$",
        description="The function, as FILE.py:FUNCTION. The path is relative to the recipe. It gets a row as"
        " a dict, and returns a row, None to drop it, or several rows: a list, or the values that it yields.",
    )
    columns: Annotated[dict[str, str], Field(min_length=1), checked_by(check_column_types)] = Field(
        description="All columns of the rows that the function returns, with their types. Every row is"
        " checked. A value can be None."
    )
    reads: Items[str] = Field(default=(), description="The columns that the function gets. Default: all.")
    with_: dict[Name, JsonValue] = Field(
        default_factory=dict[str, Any], alias="with", description="Keyword arguments of the function."
    )
    batched: bool = Field(
        default=False,
        description="Whether the function gets a list of rows and returns the rows that replace them.",
    )
    batch_size: int = Field(
        default=1000, ge=1, le=100_000, description="The number of rows of a call, with `batched`."
    )
    modules: Items[str] = Field(
        default=(), description="Other files that the function imports, relative to the recipe."
    )
    timeout_seconds: float = Field(
        default=60.0, gt=0, description="Time limit of one call, in seconds. The step fails above it."
    )

    @property
    def file(self) -> str:
        return self.call.rpartition(":")[0]

    @property
    def function(self) -> str:
        return self.call.rpartition(":")[2]

    def check(self) -> None:
        if not self.batched:
            self.refuse_without_effect("batch_size", "without `batched: true`")


def columns(params: Python, before: Columns) -> Columns:
    for name in params.reads:
        if name not in before:
            help, _ = hint(name, before, what="columns here")
            raise ValueError(f"missing column `{name}` in `reads`; {help}")
    return params.columns


def files(params: Python) -> Sequence[str]:
    return tuple(dict.fromkeys((params.file, *params.modules)))


EXTENSION = DataOp(
    name="python",
    summary="Map, filter or expand the rows with your own Python function, in a separate process.",
    params=Python,
    columns=columns,
    rows=lambda params, rows: None,
    files=files,
    stack=("duckdb",),
)


def run(params: Python, connection: Any, seed: int, paths: Mapping[str, Path]) -> None:
    """Change the table `rows`."""
    from posttrain.runtime.data.user_rows import RowFunction, map_rows

    map_rows(RowFunction(params, paths, seed), connection)
