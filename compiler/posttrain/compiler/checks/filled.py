"""Whether the rows have something in the columns that stages need, as far as rows were looked at."""

from collections.abc import Iterator, Mapping
from typing import Any

from posttrain.compiler.data.datasets import Rows, table_of
from posttrain.compiler.data.gaps import come
from posttrain.compiler.data.tables import Table
from posttrain.compiler.diagnosis.examples import minimal
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.resolution.names import Named
from posttrain.compiler.rewards.graph import Graph
from posttrain.compiler.stages.training import Training
from posttrain.spec.diagnostic import Code
from posttrain.spec.extension import Gap
from posttrain.spec.making import Generate
from posttrain.spec.measuring import Evaluate
from posttrain.spec.record import record
from posttrain.spec.training import Train
from posttrain.spec.types import accepts

_SUMS, _HUNDRED = "{arithmetic: {digits: 2, count: 200}}", "test: 100"
_WHOLE = '{"prompt": "1+1", "completion": "2", "answer": "2"}\n'
_EMPTY = '{"prompt": "1+1", "completion": null, "answer": "2"}\n'
NOTHING_THERE = Code(
    "PT0411",
    "rows with nothing in a column that a stage needs",
    "error",
    "A method trains on every row, and an eval asks with every row's prompt: a row with a null or an empty"
    " cell in a column that they read ends the stage. JSON lines, JSON, CSV and rows in the recipe are looked"
    " through when the recipe is compiled; of files above 8 MiB, the first MiB; of Parquet up to 16 MiB, what"
    " it counts itself; not at all Zstandard, larger Parquet and what is on the hub. It is a warning where a"
    " step may have left those rows out, and where a reward reads the column: such rows go unscored, or score"
    " as if nothing matched. Drop them by the step `where: COLUMN IS NOT NULL`, or fill them with `derive`.",
    wrong=minimal((_SUMS, "{files: holes.jsonl}"), (_HUNDRED, "test: 1")),
    right=minimal(
        (_SUMS, "{files: holes.jsonl}"),
        ("- split: {test: 100}", "- where: completion IS NOT NULL\n      - split: {test: 1}"),
    ),
    beside=(("holes.jsonl", _WHOLE * 3 + _EMPTY * 2),),
)
CODES = (NOTHING_THERE,)


@record
class _Need:
    """A column that a stage reads, and what becomes of a row that has nothing there."""

    column: str
    reader: str
    fatal: bool


def check_filled(
    named: Named,
    rows: Mapping[str, Rows],
    graphs: Mapping[str, Graph],
    trainings: Mapping[str, Training],
    findings: Findings,
) -> None:
    for name, stage in named.recipe.stages.items():
        ref = named.refs.get((f"stage:{name}", "data"))
        table = table_of(ref, rows, named) if ref else None
        if ref is None or table is None or not table.gaps:
            continue
        for need in _needs(name, stage, table, graphs, trainings):
            if need.column in table.gaps:
                _report(name, need, table, ref.part, findings)


def _needs(
    name: str, stage: Any, table: Table, graphs: Mapping[str, Graph], trainings: Mapping[str, Training]
) -> Iterator[_Need]:
    fatal: set[str] = set()
    match stage:
        case Train() if name in trainings:
            fatal = _learnt(trainings[name], table)
            reader = f"`{stage.train}` reads"
        case Evaluate() | Generate() if getattr(stage, "environment", None) is None:
            fatal = {"prompt"}
            reader = "every row is asked by"
        case _:
            return
    yield from (_Need(column, reader, fatal=True) for column in table.columns if column in fatal)
    graph = graphs.get(stage.reward or "")
    for column in _told_by(graph) if graph else ():
        if column not in fatal:
            yield _Need(column, f"the reward `{stage.reward}` reads", fatal=False)


def _learnt(training: Training, table: Table) -> set[str]:
    """The columns that a method reads: the first of its sets that the rows have."""
    for wanted in training.method.accepts:
        if all(name in table.columns and accepts(type, table.columns[name]) for name, type in wanted.items()):
            return set(wanted)
    return set()


def _told_by(graph: Graph) -> list[str]:
    """The columns that a graph reads otherwise than to ask whether they are there."""
    uses = [node["operands"] for node in graph.nodes if node["op"] != "present"]
    columns = [name for name in graph.reads if name != "completion"]  # that one is what the model writes
    return [name for name in columns if any(_reads(use, name) for use in uses)]


def _reads(operands: Any, name: str) -> bool:
    if isinstance(operands, Mapping):
        return operands.get("read") == name or any(_reads(one, name) for one in operands.values())
    return isinstance(operands, list | tuple) and any(_reads(one, name) for one in operands)


def _report(stage: str, need: _Need, table: Table, part: str | None, findings: Findings) -> None:
    gap = table.gaps[need.column]
    sure = come(table, part, gap)
    message = f"{_seen(gap)} nothing in `{need.column}`, which {need.reader}; the first is {gap.first}"
    if not need.fatal:
        message += ": such rows go unscored, or score as if nothing matched"
    elif not sure:
        message += ": if one of them comes to this stage, it fails"
    findings.add(
        NOTHING_THERE,
        ("stages", stage, "data"),
        message,
        help=f"add the data step `where: {need.column} IS NOT NULL`, or fill the column with `derive`",
        severity="error" if need.fatal and sure else "warning",
    )


def _seen(gap: Gap) -> str:
    return f"{gap.rows} of the {gap.of} rows looked at {'has' if gap.rows == 1 else 'have'}"
