"""Eval stages: the graph, and the metrics with the nodes that they are the rate or mean of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from posttrain.compiler.data.datasets import Rows, part_of, table_of
from posttrain.compiler.examples import MINIMAL, minimal
from posttrain.compiler.findings import Findings
from posttrain.compiler.names import Named
from posttrain.compiler.rewards.graph import Graph
from posttrain.compiler.stages.training import check_reads, graph_of
from posttrain.compiler.suggest import hint
from posttrain.compiler.tree import Path
from posttrain.spec.diagnostic import Code
from posttrain.spec.stages import Evaluate
from posttrain.spec.types import Interval

BAD_METRIC = Code(
    "PT0611",
    "a metric that cannot be computed",
    "error",
    "A metric is the rate at which a condition holds, or the mean of a number. A bare name takes the"
    " rate of a boolean node, the rate at which a `score` node's condition holds, and the mean of any"
    " other number; {rate: NODE} and {mean: NODE} say it outright. `returns` is the reward itself.",
    wrong=minimal(("{mean: returns}", "{mean: correct}")),
    right=MINIMAL,
)
CODES = (BAD_METRIC,)


@dataclass(frozen=True, slots=True)
class Metric:
    kind: str
    node: str
    range: Interval


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A checked eval stage."""

    stage: Evaluate
    graph: Graph
    metrics: Mapping[str, Metric]
    # Rows that are measured, where known: at most this many when not exact.
    rows: int | None


def check_eval(
    name: str,
    stage: Evaluate,
    named: Named,
    rows: Mapping[str, Rows],
    graphs: Mapping[str, Graph],
    findings: Findings,
) -> Evaluation | None:
    path: Path = ("stages", name)
    ref = named.refs.get((f"stage:{name}", "data"))
    table = table_of(ref, rows, named) if ref else None
    graph = graph_of(stage.reward, (*path, "reward"), named, graphs, findings)
    if ref is None or table is None or not part_of(ref, table, (*path, "data"), findings):
        return None
    if graph is None:
        return None
    check_reads(graph, table.columns, (*path, "data"), findings)
    metrics: dict[str, Metric] = {}
    for metric, given in stage.metrics.items():
        found = _metric(given, (*path, "metrics", metric), graph, findings)
        if found is not None:
            metrics[metric] = found
    count = table.parts[ref.part] if ref.part else table.rows
    return Evaluation(stage=stage, graph=graph, metrics=metrics, rows=count)


def _metric(given: Any, path: Path, graph: Graph, findings: Findings) -> Metric | None:
    kind, name = "", given
    if isinstance(given, dict) and len(cast(dict[str, Any], given)) == 1:
        kind, name = next(iter(cast(dict[str, Any], given).items()))
    if not isinstance(name, str) or kind not in ("", "rate", "mean"):
        message = "a metric is a node's name, {rate: NODE} or {mean: NODE}"
        findings.add(BAD_METRIC, path, message)
        return None
    node = graph.returns if name == "returns" else name
    where = (*path, kind) if kind else path
    if node not in graph.types or (node not in graph.ranges and node not in graph.reads):
        known = [*(n for n in graph.types if "." not in n), "returns"]
        help, meant = hint(name, known, what="nodes")
        findings.add(BAD_METRIC, where, f"the reward has no node `{name}`", help=help, replace=meant)
        return None
    return _of_type(kind, node, graph, where, findings)


def _of_type(kind: str, node: str, graph: Graph, path: Path, findings: Findings) -> Metric | None:
    condition = node if graph.types[node] == "boolean" else _condition(node, graph)
    if kind != "mean" and condition is not None:
        return Metric("rate", condition, Interval(0.0, 1.0))
    if kind == "rate":
        message = f"`{node}` is no condition, so it has no rate; take its mean"
        findings.add(BAD_METRIC, path, message)
        return None
    if graph.types[node] not in ("number", "integer", "boolean"):
        findings.add(BAD_METRIC, path, f"`{node}` is {graph.types[node]}, which has no mean")
        return None
    return Metric("mean", node, graph.ranges.get(node, Interval.everything()))


def _condition(node: str, graph: Graph) -> str | None:
    """The condition of a `score` node: the rate of such a node is how often it holds."""
    for item in graph.nodes:
        if item["id"] == node and item["op"] == "score":
            when = item["operands"]["when"]
            return when.get("node") or when.get("read")
    return None
