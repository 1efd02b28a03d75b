"""Whether the rows have something in the columns that stages need, as far as rows were looked at."""

from collections.abc import Iterator, Mapping
from typing import Any

from posttrain.compiler.data.datasets import CompiledDataset, table_of
from posttrain.compiler.data.nullability import has_certain_nulls
from posttrain.compiler.data.table_schema import TableSchema
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.rewards.graph import RewardGraph
from posttrain.compiler.stages.train_stage import CheckedTraining
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
    "rows with nothing in a column that a stage needs",
    "error",
    "A method trains on every row, and an eval asks with every row's prompt: a row with a null or an empty"
    " cell in a column that they read ends the stage. JSON lines, JSON, CSV and rows in the recipe are looked"
    " through when the recipe is compiled; of files above 8 MiB, the first MiB; of Parquet up to 16 MiB, what"
    " it counts itself; not at all Zstandard, larger Parquet and what is on the hub. It is a warning where a"
    " step may have left those rows out, and where a reward reads the column: such rows go unscored, or score"
    " as if nothing matched. Drop them by the step `where: COLUMN IS NOT NULL`, or fill them with `derive`.",
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
    """A column that a stage reads, and what becomes of a row that has nothing there."""

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
        ref = resolved.refs.get((f"stage:{name}", "data"))
        table = table_of(ref, rows, resolved) if ref else None
        if ref is None or table is None or not table.null_counts:
            continue
        for need in _required_columns(name, stage, table, graphs, trainings):
            if need.column in table.null_counts:
                _report(name, need, table, ref.part, diagnostics)


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
            reader = "every row is asked by"
        case _:
            return
    yield from (_RequiredColumn(column, reader, fatal=True) for column in table.columns if column in fatal)
    graph = graphs.get(stage.reward or "")
    for column in _reward_columns(graph) if graph else ():
        if column not in fatal:
            yield _RequiredColumn(column, f"the reward `{stage.reward}` reads", fatal=False)


def _training_columns(training: CheckedTraining, table: TableSchema) -> set[str]:
    """The columns that a method reads: the first of its sets that the rows have."""
    for required in training.method.accepts:
        if all(
            name in table.columns and is_assignable(type, table.columns[name])
            for name, type in required.items()
        ):
            return set(required)
    return set()


def _reward_columns(graph: RewardGraph) -> list[str]:
    """The columns that a graph reads otherwise than to ask whether they are there."""
    uses = [node["operands"] for node in graph.nodes if node["op"] != "present"]
    columns = [name for name in graph.reads if name != "completion"]  # that one is what the model writes
    return [name for name in columns if any(_reads(use, name) for use in uses)]


def _reads(operands: Any, name: str) -> bool:
    if isinstance(operands, Mapping):
        return operands.get("read") == name or any(_reads(one, name) for one in operands.values())
    return isinstance(operands, list | tuple) and any(_reads(one, name) for one in operands)


def _report(
    stage: str, need: _RequiredColumn, table: TableSchema, part: str | None, diagnostics: Diagnostics
) -> None:
    gap = table.null_counts[need.column]
    sure = has_certain_nulls(table, part, gap)
    message = (
        f"{_null_count_text(gap)} nothing in `{need.column}`, which {need.reader}; the first is"
        f" {gap.first_row}"
    )
    if not need.fatal:
        message += ": such rows go unscored, or score as if nothing matched"
    elif not sure:
        message += ": if one of them comes to this stage, it fails"
    diagnostics.add(
        NULL_VALUES,
        ("stages", stage, "data"),
        message,
        help=f"add the data step `where: {need.column} IS NOT NULL`, or fill the column with `derive`",
        severity="error" if need.fatal and sure else "warning",
    )


def _null_count_text(gap: NullStats) -> str:
    return (
        f"{gap.null_rows} of the {gap.rows_checked} rows looked at {'has' if gap.null_rows == 1 else 'have'}"
    )
