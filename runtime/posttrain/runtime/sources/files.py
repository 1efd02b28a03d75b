"""Rows from a file beside the recipe: JSON lines, JSON, CSV or Parquet."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from posttrain.runtime.context import Context
from posttrain.spec.extension import Params, Source
from posttrain.spec.types import Columns, is_type

_SQL = {"text": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "any": "JSON"}
_READERS = {"jsonl": "read_json", "ndjson": "read_json", "json": "read_json", "csv": "read_csv"}


class Files(Params):
    path: str = Field(description="The file, relative to the recipe's folder.")
    format: Literal["auto", "jsonl", "json", "csv", "parquet"] = Field(
        default="auto", description="The file's format; auto goes by its ending."
    )
    columns: dict[str, str] = Field(min_length=1, description="The columns to read, with their types.")


def columns(params: Files) -> Columns:
    return {name: type for name, type in params.columns.items() if is_type(type)}


def files(params: Files) -> Sequence[str]:
    return (params.path,)


EXTENSION = Source(
    name="files",
    summary="Rows from a file beside the recipe.",
    params=Files,
    columns=columns,
    files=files,
    stack=("duckdb",),
)


def run(params: Files, context: Context, connection: Any) -> None:
    """Make the table `source`."""
    path = context.files["rows0"]
    ending = params.format if params.format != "auto" else Path(params.path).suffix.lstrip(".")
    reader = _READERS.get(ending, "read_parquet")
    kept = ", ".join(f'CAST("{name}" AS {_sql(type)}) AS "{name}"' for name, type in params.columns.items())
    connection.execute(f"CREATE TABLE source AS SELECT {kept} FROM {reader}(?)", [str(path)])


def _sql(type: str) -> str:
    if type == "messages":
        return "STRUCT(role VARCHAR, content VARCHAR)[]"
    return _sql(type[5:-1]) + "[]" if type.startswith("list<") else _SQL[type]
