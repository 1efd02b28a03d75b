"""Training stages: the method, its parameters, the columns it reads and the arithmetic of its steps."""

from collections.abc import Mapping

from posttrain.compiler.data import codes as data_codes
from posttrain.compiler.data.datasets import Rows, part_of, table_of
from posttrain.compiler.diagnosis.examples import MINIMAL, minimal
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.reading.validate import validate
from posttrain.compiler.resolution.names import Named
from posttrain.compiler.rewards.graph import Graph
from posttrain.compiler.text.source import Request
from posttrain.compiler.text.tree import Mapped, Path, at
from posttrain.spec.diagnostic import Code
from posttrain.spec.extension import Method, Params, Schedule
from posttrain.spec.record import record
from posttrain.spec.training import Train
from posttrain.spec.types import Columns, accepts

UNKNOWN_METHOD = Code(
    "PT0601",
    "an unknown training method",
    "error",
    "`train` names a method: one of those that come with posttrain, or one that an installed package adds.",
    wrong=minimal(("{train: sft,", "{train: stf,")),
    right=MINIMAL,
)
NO_REWARD = Code(
    "PT0602",
    "a method without the reward that it needs",
    "error",
    "Methods that learn from their own completions need a reward graph; the others take none.",
    wrong=minimal(("{train: sft,", "{train: sft, reward: right,")),
    right=MINIMAL,
)
UNKNOWN_REWARD = Code(
    "PT0603",
    "an unknown reward",
    "error",
    "`reward` names one of the graphs declared under `rewards`.",
    wrong=minimal(("reward: right,", "reward: rigth,")),
    right=MINIMAL,
)
BAD_ARITHMETIC = Code(
    "PT0604",
    "sizes that do not go together",
    "error",
    "Batches, generations and steps must divide as the method needs; a step that cannot be filled"
    " would otherwise fail hours later.",
    wrong=minimal(("batch: 4", "batch: 4, micro_batch: 3")),
    right=MINIMAL,
)
CODES = (UNKNOWN_METHOD, NO_REWARD, UNKNOWN_REWARD, BAD_ARITHMETIC)


@record(kw_only=True)
class Training:
    """A checked training stage."""

    stage: Train
    method: Method
    params: Params
    graph: Graph | None
    # None while the number of rows is known only when they are made.
    schedule: Schedule | None
    # Checkpoints land on multiples of this many steps; None when the sizes do not go together.
    boundary: int | None


def check_training(
    name: str,
    stage: Train,
    named: Named,
    rows: Mapping[str, Rows],
    graphs: Mapping[str, Graph],
    request: Request,
    findings: Findings,
) -> Training | None:
    path: Path = ("stages", name)
    method = request.catalog.find("method", stage.train)
    if not isinstance(method, Method):
        help, meant = hint(stage.train, request.catalog.names("method"), what="methods")
        message = f"there is no training method `{stage.train}`"
        findings.add(UNKNOWN_METHOD, (*path, "train"), message, help=help, replace=meant)
        method = request.catalog.find("method", meant) if meant is not None else None
    if not isinstance(method, Method):  # of the method that was meant, what is around it is checked too
        return None
    where = (*path, "params") if stage.params else path
    node = at(findings.root, (*path, "params"))[0] if stage.params else _empty(findings, path)
    params = validate(method.params, node, where, findings)
    graph = _reward(stage, method, path, named, graphs, findings)
    table = _columns(name, stage, method, graph, named, rows, findings)
    if params is None:
        return None
    planned = _schedule(method, params, table, where, findings)
    return Training(
        stage=stage,
        method=method,
        params=params,
        graph=graph,
        schedule=planned if table is not None and planned is not None and not planned.at_most else None,
        boundary=planned.boundary if planned else None,
    )


def _empty(findings: Findings, path: Path) -> Mapped:
    return Mapped({}, findings.span(path))


def graph_of(
    name: str, path: Path, named: Named, graphs: Mapping[str, Graph], findings: Findings
) -> Graph | None:
    """The graph that a stage names; None when it does not exist, or is itself mistaken."""
    if name not in named.recipe.rewards and name not in named.recipe.broken:
        help, meant = hint(name, named.recipe.rewards, what="rewards")
        message = f"there is no reward `{name}`"
        findings.add(UNKNOWN_REWARD, path, message, help=help, replace=meant)
    return graphs.get(name)


def _reward(
    stage: Train,
    method: Method,
    path: Path,
    named: Named,
    graphs: Mapping[str, Graph],
    findings: Findings,
) -> Graph | None:
    if stage.reward is None:
        if method.needs_reward:
            message = f"`{method.name}` learns from a reward, and none is named"
            findings.add(NO_REWARD, (*path, "train"), message, help="add `reward: NAME`")
        return None
    if not method.needs_reward:
        message = f"`{method.name}` does not learn from a reward"
        findings.add(NO_REWARD, (*path, "reward"), message, help="remove the key")
        return None
    return graph_of(stage.reward, (*path, "reward"), named, graphs, findings)


def _columns(
    name: str,
    stage: Train,
    method: Method,
    graph: Graph | None,
    named: Named,
    rows: Mapping[str, Rows],
    findings: Findings,
) -> int | None:
    """Check the columns that are read, and give the number of rows if it is known exactly."""
    ref = named.refs.get((f"stage:{name}", "data"))
    table = table_of(ref, rows, named) if ref else None
    path: Path = ("stages", name, "data")
    if ref is None or table is None or not part_of(ref, table, path, findings):
        return None
    if table.columns and not any(_covers(table.columns, wanted) for wanted in method.accepts):
        wanted = " or ".join(_shown(columns) for columns in method.accepts)
        message = f"`{stage.train}` reads {wanted}; the data has {_shown(table.columns)}"
        from posttrain.compiler.data.forms import column_advice

        help = column_advice(table.columns, method.accepts)
        findings.add(data_codes.MISSING_COLUMN, path, message, help=help)
    elif graph is not None:
        check_reads(graph, table.columns, path, findings)
    return table.bound(ref.part) if table.exact else None


def check_reads(graph: Graph, columns: Columns, path: Path, findings: Findings) -> None:
    """Whether the data has what a reward reads beside the completion."""
    for name, type in graph.reads.items():
        if name == "completion" or not columns:
            continue
        if name not in columns:
            help, _ = hint(name, columns, what="columns")
            message = f"the reward reads a column `{name}`, which the data does not have"
            findings.add(data_codes.MISSING_COLUMN, path, message, help=help)
        elif not accepts(type, columns[name]):
            message = f"the reward reads `{name}` as {type}; the data has it as {columns[name]}"
            findings.add(data_codes.MISSING_COLUMN, path, message)


def _covers(columns: Columns, wanted: Columns) -> bool:
    # Values of any type are kept as JSON: what a method would learn as text are its braces and quotes.
    return all(
        name in columns and columns[name] != "any" and accepts(type, columns[name])
        for name, type in wanted.items()
    )


def _shown(columns: Columns) -> str:
    return ", ".join(f"{name} ({type})" for name, type in columns.items())


def _schedule(
    method: Method, params: Params, rows: int | None, path: Path, findings: Findings
) -> Schedule | None:
    try:
        # Arithmetic that does not depend on the rows is checked with any number of them.
        return method.schedule(params, rows if rows is not None else 10**9)
    except ValueError as error:
        findings.add(BAD_ARITHMETIC, path, str(error))
        return None
