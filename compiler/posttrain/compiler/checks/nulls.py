"""Checks for null or empty values in the columns that stages read, as far as the compiler reads the rows."""

from collections.abc import Iterator, Mapping
from typing import Any

from posttrain.compiler.data.datasets import CompiledDataset
from posttrain.compiler.data.nullability import has_certain_nulls
from posttrain.compiler.data.table_schema import TableSchema
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.rewards.graph import RewardGraph
from posttrain.compiler.stages.read_tables import read_tables
from posttrain.compiler.stages.train_stage import CheckedTraining
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.column_types import is_assignable
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.extension import NullStats
from posttrain.spec.record import record
from posttrain.spec.train_stage import Train

_SUMS, _HUNDRED = "{arithmetic: {digits: 2, count: 200}}", "test: 100"
_WHOLE = '{"prompt": "1+1", "completion": "2", "answer": "2"}\n'
_EMPTY = '{"prompt": "1+1", "completion": null, "answer": "2"}\n'
NULL_VALUES = Code(
    "PT0411",
    "null values in a required column",
    "error",
    "A method trains on every row, evaluates every held-out row, and an eval uses the prompt of every row."
    " A null or empty value in a column that they read makes the stage fail. The compiler checks JSON lines,"
    " JSON, CSV and inline rows. It checks the first MiB of files above 8 MiB, and the statistics of Parquet"
    " files up to 16 MiB. It does not check Zstandard files, larger Parquet files or datasets on the hub. The"
    " diagnostic is a warning if an earlier step may have dropped these rows, or if only a reward reads the"
    " column: such rows are unscored, or scored as if nothing matched. Drop the rows with the step"
    " `where: COLUMN IS NOT NULL`, or fill the column with `derive`.",
    wrong=minimal_recipe((_SUMS, "{files: holes.jsonl}"), (_HUNDRED, "test: 1")),
    right=minimal_recipe(
        (_SUMS, "{files: holes.jsonl}"),
        ("- split: {test: 100}", "- where: completion IS NOT NULL\n      - split: {test: 1}"),
    ),
    files=(("holes.jsonl", _WHOLE * 3 + _EMPTY * 2),),
)
CODES = (NULL_VALUES,)


@record
class _RequiredColumn:
    """A column that a stage reads, and whether a null value in it makes the stage fail."""

    column: str
    reader: str
    fatal: bool


def check_nulls(
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    graphs: Mapping[str, RewardGraph],
    trainings: Mapping[str, CheckedTraining],
    diagnostics: Diagnostics,
) -> None:
    for name, stage in resolved.recipe.stages.items():
        for ref, table, path in read_tables(name, resolved, rows):
            for need in _required_columns(name, stage, table, graphs, trainings) if table.null_counts else ():
                if need.column in table.null_counts:
                    _report(path, need, table, ref.part, diagnostics)


def _required_columns(
    name: str,
    stage: Any,
    table: TableSchema,
    graphs: Mapping[str, RewardGraph],
    trainings: Mapping[str, CheckedTraining],
) -> Iterator[_RequiredColumn]:
    fatal: set[str] = set()
    match stage:
        case Train() if name in trainings:
            fatal = _training_columns(trainings[name], table)
            reader = f"`{stage.train}` reads"
        case Evaluate() | Generate() if getattr(stage, "environment", None) is None:
            fatal = {"prompt"}
            reader = "every prompt needs"
        case _:
            return
    yield from (_RequiredColumn(column, reader, fatal=True) for column in table.columns if column in fatal)
    graph = graphs.get(stage.reward or "")
    for column in _reward_columns(graph) if graph else ():
        if column not in fatal:
            yield _RequiredColumn(column, f"the reward `{stage.reward}` reads", fatal=False)


def _training_columns(training: CheckedTraining, table: TableSchema) -> set[str]:
    """Return the columns that a method reads: the first of its column sets that the rows have."""
    for required in training.method.accepts:
        if all(
            name in table.columns and is_assignable(type, table.columns[name])
            for name, type in required.items()
        ):
            return set(required)
    return set()


def _reward_columns(graph: RewardGraph) -> list[str]:
    """Return the columns that a graph reads, except through the op `present`."""
    uses = [node["operands"] for node in graph.nodes if node["op"] != "present"]
    columns = [name for name in graph.reads if name != "completion"]  # the model generates it
    return [name for name in columns if any(_reads(use, name) for use in uses)]


def _reads(operands: Any, name: str) -> bool:
    if isinstance(operands, Mapping):
        return operands.get("read") == name or any(_reads(one, name) for one in operands.values())
    return isinstance(operands, list | tuple) and any(_reads(one, name) for one in operands)


def _report(
    path: KeyPath, need: _RequiredColumn, table: TableSchema, part: str | None, diagnostics: Diagnostics
) -> None:
    gap = table.null_counts[need.column]
    sure = has_certain_nulls(table, part, gap)
    message = (
        f"{_null_count_text(gap)} a null or empty value in `{need.column}`, which {need.reader}; the first is"
        f" {gap.first_row}"
    )
    if not need.fatal:
        message += ": such rows are unscored, or scored as if nothing matched"
    elif not sure:
        message += ": the stage fails if it reads such a row"
    diagnostics.add(
        NULL_VALUES,
        path,
        message,
        help=f"add the data step `where: {need.column} IS NOT NULL`, or fill the column with `derive`",
        severity="error" if need.fatal and sure else "warning",
    )


def _null_count_text(gap: NullStats) -> str:
    return f"{gap.null_rows} of the {gap.rows_checked} checked rows {'has' if gap.null_rows == 1 else 'have'}"
