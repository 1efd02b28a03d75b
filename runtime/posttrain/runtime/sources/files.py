"""Rows from files beside the recipe: JSON lines, JSON, CSV or Parquet, as they are or compressed."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal

from posttrain.runtime.context import Context
from posttrain.runtime.sources.inference import columns_of, gaps_of, held_to, readable
from posttrain.runtime.sources.parsing import looked_at
from posttrain.spec.declared import field
from posttrain.spec.extension import Content, Gap, Params, Source
from posttrain.spec.types import Columns, typed_columns

_ENDINGS = {"jsonl": "jsonl", "ndjson": "jsonl", "json": "json", "csv": "csv", "parquet": "parquet"}


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
        check=typed_columns,
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
    if ending[1:] not in _ENDINGS:
        known = ", ".join(sorted(set(_ENDINGS.values())))
        raise ValueError(f"the ending of `{path}` says no format; add `format`, one of {known}")
    return _ENDINGS[ending[1:]]


def infer(params: Files, contents: Sequence[bytes]) -> Content:
    """What the files' rows are like: of all rows, or of those of large files that were looked at."""
    kinds = [format_of(path, params.format) for path in params.path]
    looked = [looked_at(*file) for file in zip(params.path, kinds, contents, strict=True)]
    rows = [row for one in looked for row in one.rows]
    places = [place for one in looked for place in one.places]
    hidden = next((path for path, one in zip(params.path, looked, strict=True) if not one.whole), None)
    if hidden is not None:
        if params.columns is None:
            raise ValueError(
                f"the columns of `{hidden}` cannot be told here; add `columns`, with their types"
            )
        gaps = {**_nulls(params, kinds, contents), **gaps_of(params.columns, places, rows)}
        return Content(columns=params.columns, rows=None, gaps=gaps)
    if not rows:
        raise ValueError("there are no rows")
    columns = _held(params, columns_of(rows), texts="csv" in kinds)
    gaps = gaps_of(columns, places, rows)
    if params.columns is not None and "csv" not in kinds:
        _check_some(gaps)
    return Content(columns=columns, rows=len(rows), gaps=gaps)


def _nulls(params: Files, kinds: Sequence[str], contents: Sequence[bytes]) -> dict[str, Gap]:
    """The nulls that Parquet files count themselves. ValueError for a column that one does not have."""
    from posttrain.runtime.sources.footer import footer_of, gaps_in

    found: dict[str, Gap] = {}
    for path, kind, data in zip(params.path, kinds, contents, strict=True):
        footer = footer_of(data) if kind == "parquet" else None
        if footer is None:
            continue
        for name in params.columns or ():
            if name not in footer.columns:
                listed = ", ".join(footer.columns)
                raise ValueError(f"`{path}` has no column `{name}`; it has {listed}")
        for name, gap in gaps_in(path, footer, list(params.columns or ())).items():
            before = found.get(name, Gap(first=gap.first, rows=0, of=0))
            found[name] = Gap(first=before.first, rows=before.rows + gap.rows, of=before.of + gap.of)
    return found


def _check_some(gaps: Mapping[str, Gap]) -> None:
    """ValueError for what would end the reading: a declared column that no row of JSON has."""
    for name, gap in gaps.items():
        if gap.rows == gap.of:
            raise ValueError(f"no row has anything in the column `{name}`; mend `columns`")


def _held(params: Files, found: Columns, *, texts: bool) -> Columns:
    """The columns as they are declared, if the content can be read so; else as they were found."""
    if params.columns is None:
        return found
    declared = params.columns
    held_to(declared, {name: _loosest(name, declared, found) if texts else found[name] for name in found})
    return declared


def _loosest(name: str, declared: Columns, found: Columns) -> str:
    """In CSV, text may be read as what it looks like, or stay text; lists stand as JSON."""
    type = declared.get(name, "text")
    return type if type == "text" or found[name] == "text" or readable(type, found[name]) else found[name]


EXTENSION = Source(
    name="files",
    summary="Rows from files beside the recipe.",
    params=Files,
    columns=lambda params: params.columns,
    files=lambda params: params.path,
    infer=infer,
    beginnings=True,
    stack=("duckdb",),
)


def run(params: Files, context: Context, connection: Any) -> None:
    """Make the table `source`."""
    from posttrain.runtime.sources.reading import read_files

    paths = [context.files[f"rows{index}"] for index in range(len(params.path))]
    formats = [format_of(path, params.format) for path in params.path]
    columns = params.columns
    if columns is None:
        columns = infer(params, [path.read_bytes() for path in paths]).columns
    read_files(connection, paths, formats, columns, declared=params.columns is not None)
