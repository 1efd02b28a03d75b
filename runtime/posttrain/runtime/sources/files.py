"""Source `files`: rows of local files in JSON Lines, JSON, CSV, TSV or Parquet, optionally compressed."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import Field

from posttrain.runtime.sources.delimited_text import DELIMITERS, infer_cell_types, typed_row
from posttrain.runtime.sources.file_preview import FilePreview, preview_file
from posttrain.runtime.sources.type_inference import (
    check_declared_columns,
    find_gaps,
    infer_columns,
    is_readable_as,
    turn_fields,
)
from posttrain.runtime.step_context import StepContext
from posttrain.spec.column_types import Columns, check_column_types
from posttrain.spec.extension import InferredSchema, NullStats, Params, Source
from posttrain.spec.field_types import OneOrMore, checked_by

_FORMATS_BY_SUFFIX = {
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "json",
    "csv": "csv",
    "tsv": "tsv",
    "parquet": "parquet",
}


class Files(Params, bare="path"):
    path: OneOrMore[str] = Field(
        min_length=1, description="One or more files, relative to the recipe's folder."
    )
    format: Literal["auto", "jsonl", "json", "csv", "tsv", "parquet"] = Field(
        default="auto",
        description="The format of the files. `auto` selects it by the file extension before .gz or .zst.",
    )
    columns: Annotated[dict[str, str], Field(min_length=1), checked_by(check_column_types)] | None = Field(
        default=None,
        description="The columns to read, with their types. The default is to infer them from the content;"
        " large, Parquet and Zstandard files need them. A column of CSV or TSV is text, with every cell as in"
        " the file, unless all cells are numbers or all are booleans. An empty cell is null.",
    )

    def check(self) -> None:
        for path in self.path:
            format_of(path, self.format)


def format_of(path: str, declared: str) -> str:
    """The format of a file. Raise ValueError when its extension is unknown."""
    if declared != "auto":
        return declared
    name = PurePosixPath(path)
    extension = PurePosixPath(name.stem).suffix if name.suffix in (".gz", ".zst") else name.suffix
    if extension[1:] not in _FORMATS_BY_SUFFIX:
        known = ", ".join(sorted(set(_FORMATS_BY_SUFFIX.values())))
        raise ValueError(f"unknown file extension of `{path}`; add `format`, one of {known}")
    return _FORMATS_BY_SUFFIX[extension[1:]]


def infer(params: Files, contents: Sequence[bytes]) -> InferredSchema:
    """The schema of the files, from all rows, or from the first rows of large files."""
    kinds = [format_of(path, params.format) for path in params.path]
    previews = [preview_file(*file) for file in zip(params.path, kinds, contents, strict=True)]
    rows = _typed_rows(kinds, previews)
    places = [place for one in previews for place in one.places]
    hidden = next((path for path, one in zip(params.path, previews, strict=True) if not one.complete), None)
    if hidden is not None:
        if params.columns is None:
            raise ValueError(f"cannot infer the columns of `{hidden}`; add `columns` with their types")
        gaps = {**_parquet_gaps(params, kinds, contents), **find_gaps(params.columns, places, rows)}
        return InferredSchema(
            columns=params.columns, rows=None, nulls=gaps, turn_fields=turn_fields(places, rows)
        )
    if not rows:
        raise ValueError("the files have no rows")
    columns = _declared_columns(params, places, rows, texts=_has_cells(kinds))
    gaps = find_gaps(columns, places, rows)
    if params.columns is not None and not _has_cells(kinds):
        _check_columns_not_empty(gaps)
    return InferredSchema(columns=columns, rows=len(rows), nulls=gaps, turn_fields=turn_fields(places, rows))


def _has_cells(kinds: Sequence[str]) -> bool:
    return any(kind in DELIMITERS for kind in kinds)


def _typed_rows(kinds: Sequence[str], previews: Sequence[FilePreview]) -> list[dict[str, Any]]:
    """The rows of all files. The cells of CSV and TSV get the type of their column in all these files."""
    cells = [row for kind, one in zip(kinds, previews, strict=True) if kind in DELIMITERS for row in one.rows]
    types = infer_cell_types(cells)
    return [
        typed_row(row, types) if kind in DELIMITERS else row
        for kind, one in zip(kinds, previews, strict=True)
        for row in one.rows
    ]


def _parquet_gaps(params: Files, kinds: Sequence[str], contents: Sequence[bytes]) -> dict[str, NullStats]:
    """The null counts of Parquet files. Raise ValueError for a column that a file does not have."""
    from posttrain.runtime.sources.parquet_footer import footer_gaps, read_footer

    gaps: dict[str, NullStats] = {}
    for path, kind, data in zip(params.path, kinds, contents, strict=True):
        footer = read_footer(data) if kind == "parquet" else None
        if footer is None:
            continue
        for name in params.columns or ():
            if name not in footer.columns:
                listed = ", ".join(footer.columns)
                raise ValueError(f"missing column `{name}` in `{path}`; its columns are {listed}")
        for name, gap in footer_gaps(path, footer, list(params.columns or ())).items():
            before = gaps.get(name, NullStats(first_row=gap.first_row, null_rows=0, rows_checked=0))
            gaps[name] = NullStats(
                first_row=before.first_row,
                null_rows=before.null_rows + gap.null_rows,
                rows_checked=before.rows_checked + gap.rows_checked,
            )
    return gaps


def _check_columns_not_empty(gaps: Mapping[str, NullStats]) -> None:
    """Raise ValueError for a declared column that no row of JSON has, as the run would."""
    for name, gap in gaps.items():
        if gap.null_rows == gap.rows_checked:
            raise ValueError(f"the column `{name}` is null in every row; correct `columns`")


def _declared_columns(
    params: Files, places: Sequence[str], rows: Sequence[Mapping[str, Any]], *, texts: bool
) -> Columns:
    """The declared columns, checked against the inferred ones. Without a declaration, the inferred ones."""
    inferred = infer_columns(rows)
    if params.columns is None:
        return inferred
    declared = params.columns
    check_declared_columns(
        declared,
        {name: _csv_type(name, declared, inferred) if texts else inferred[name] for name in inferred},
        places,
        rows,
    )
    return declared


def _csv_type(name: str, declared: Columns, inferred: Columns) -> str:
    """The declared type if the cells can have it, else the inferred type. Lists in cells are JSON."""
    type = declared.get(name, "text")
    is_readable = type == "text" or inferred[name] == "text" or is_readable_as(type, inferred[name])
    return type if is_readable else inferred[name]


EXTENSION = Source(
    name="files",
    summary="Read the rows of local files.",
    params=Files,
    columns=lambda params: params.columns,
    files=lambda params: params.path,
    infer=infer,
    infers_from_prefix=True,
    version=3,
    stack=("duckdb",),
)


def run(params: Files, context: StepContext, connection: Any) -> None:
    """Create the table `source`."""
    from posttrain.runtime.sources.duckdb_reader import read_files

    paths = [context.files[f"rows{index}"] for index in range(len(params.path))]
    formats = [format_of(path, params.format) for path in params.path]
    columns = params.columns
    if columns is None:
        columns = infer(params, [path.read_bytes() for path in paths]).columns
    read_files(connection, paths, formats, columns, declared=params.columns is not None)
