"""Rows from files beside the recipe: JSON lines, JSON, CSV or Parquet, as they are or compressed."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal

from posttrain.runtime.sources.file_preview import preview_file
from posttrain.runtime.sources.type_inference import (
    check_declared_columns,
    find_gaps,
    infer_columns,
    is_readable_as,
)
from posttrain.runtime.step_context import StepContext
from posttrain.spec.column_types import Columns, check_column_types
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import InferredSchema, NullStats, Params, Source

_FORMATS_BY_SUFFIX = {"jsonl": "jsonl", "ndjson": "jsonl", "json": "json", "csv": "csv", "parquet": "parquet"}


class Files(Params, bare="path"):
    path: list[str] = field(
        single=True, min_length=1, description="The file, or several, relative to the recipe's folder."
    )
    format: Literal["auto", "jsonl", "json", "csv", "parquet"] = field(
        default="auto", description="The files' format; auto goes by their ending, before .gz or .zst."
    )
    columns: dict[str, str] | None = field(
        default=None,
        min_length=1,
        check=check_column_types,
        description="The columns to read, with their types; told from the content when not given.",
    )

    def check(self) -> None:
        for path in self.path:
            format_of(path, self.format)


def format_of(path: str, given: str) -> str:
    """The format of a file. ValueError when its ending says none."""
    if given != "auto":
        return given
    name = PurePosixPath(path)
    ending = PurePosixPath(name.stem).suffix if name.suffix in (".gz", ".zst") else name.suffix
    if ending[1:] not in _FORMATS_BY_SUFFIX:
        known = ", ".join(sorted(set(_FORMATS_BY_SUFFIX.values())))
        raise ValueError(f"the ending of `{path}` says no format; add `format`, one of {known}")
    return _FORMATS_BY_SUFFIX[ending[1:]]


def infer(params: Files, contents: Sequence[bytes]) -> InferredSchema:
    """What the files' rows are like: of all rows, or of those of large files that were looked at."""
    kinds = [format_of(path, params.format) for path in params.path]
    looked = [preview_file(*file) for file in zip(params.path, kinds, contents, strict=True)]
    rows = [row for one in looked for row in one.rows]
    places = [place for one in looked for place in one.places]
    hidden = next((path for path, one in zip(params.path, looked, strict=True) if not one.complete), None)
    if hidden is not None:
        if params.columns is None:
            raise ValueError(
                f"the columns of `{hidden}` cannot be told here; add `columns`, with their types"
            )
        gaps = {**_parquet_gaps(params, kinds, contents), **find_gaps(params.columns, places, rows)}
        return InferredSchema(columns=params.columns, rows=None, nulls=gaps)
    if not rows:
        raise ValueError("there are no rows")
    columns = _declared_columns(params, infer_columns(rows), texts="csv" in kinds)
    gaps = find_gaps(columns, places, rows)
    if params.columns is not None and "csv" not in kinds:
        _check_columns_not_empty(gaps)
    return InferredSchema(columns=columns, rows=len(rows), nulls=gaps)


def _parquet_gaps(params: Files, kinds: Sequence[str], contents: Sequence[bytes]) -> dict[str, NullStats]:
    """The nulls that Parquet files count themselves. ValueError for a column that one does not have."""
    from posttrain.runtime.sources.parquet_footer import footer_gaps, read_footer

    found: dict[str, NullStats] = {}
    for path, kind, data in zip(params.path, kinds, contents, strict=True):
        footer = read_footer(data) if kind == "parquet" else None
        if footer is None:
            continue
        for name in params.columns or ():
            if name not in footer.columns:
                listed = ", ".join(footer.columns)
                raise ValueError(f"`{path}` has no column `{name}`; it has {listed}")
        for name, gap in footer_gaps(path, footer, list(params.columns or ())).items():
            before = found.get(name, NullStats(first_row=gap.first_row, null_rows=0, rows_checked=0))
            found[name] = NullStats(
                first_row=before.first_row,
                null_rows=before.null_rows + gap.null_rows,
                rows_checked=before.rows_checked + gap.rows_checked,
            )
    return found


def _check_columns_not_empty(gaps: Mapping[str, NullStats]) -> None:
    """ValueError for what would end the reading: a declared column that no row of JSON has."""
    for name, gap in gaps.items():
        if gap.null_rows == gap.rows_checked:
            raise ValueError(f"no row has anything in the column `{name}`; mend `columns`")


def _declared_columns(params: Files, found: Columns, *, texts: bool) -> Columns:
    """The columns as they are declared, if the content can be read so; else as they were found."""
    if params.columns is None:
        return found
    declared = params.columns
    check_declared_columns(
        declared, {name: _csv_type(name, declared, found) if texts else found[name] for name in found}
    )
    return declared


def _csv_type(name: str, declared: Columns, found: Columns) -> str:
    """In CSV, text may be read as what it looks like, or stay text; lists stand as JSON."""
    type = declared.get(name, "text")
    return (
        type if type == "text" or found[name] == "text" or is_readable_as(type, found[name]) else found[name]
    )


EXTENSION = Source(
    name="files",
    summary="Rows from files beside the recipe.",
    params=Files,
    columns=lambda params: params.columns,
    files=lambda params: params.path,
    infer=infer,
    infers_from_prefix=True,
    stack=("duckdb",),
)


def run(params: Files, context: StepContext, connection: Any) -> None:
    """Make the table `source`."""
    from posttrain.runtime.sources.duckdb_reader import read_files

    paths = [context.files[f"rows{index}"] for index in range(len(params.path))]
    formats = [format_of(path, params.format) for path in params.path]
    columns = params.columns
    if columns is None:
        columns = infer(params, [path.read_bytes() for path in paths]).columns
    read_files(connection, paths, formats, columns, declared=params.columns is not None)
