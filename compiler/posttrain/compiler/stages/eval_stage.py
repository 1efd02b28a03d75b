"""Checks eval stages: the reward graph, and the metrics with their nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, Protocol, cast

from posttrain.compiler.data import data_codes
from posttrain.compiler.data.datasets import CompiledDataset, check_part, table_of
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.rewards.graph import RewardGraph
from posttrain.compiler.stages.inference import InferenceConfig, check_inference
from posttrain.compiler.stages.inference_codes import INVALID_SAMPLING
from posttrain.compiler.stages.train_stage import check_reward_columns, resolve_reward
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.column_types import SCALAR_TYPES, Columns, Interval
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.record import record
from posttrain.spec.step_params.eval_params import MetricDefinition, MetricKind
from posttrain.spec.suggestions import hint

BAD_METRIC = Code(
    "PT0611",
    "invalid metric",
    "error",
    "A metric is the rate of a condition or the mean of a number. A bare name means the rate for a boolean"
    " node and for a `score` node (the rate of its condition), and the mean for any other number. {rate:"
    " NODE} and {mean: NODE} select one explicitly. {pass_at: {node: NODE, k: K}} is the probability that at"
    " least one of K completions meets a condition. `returns` is the reward itself.",
    wrong=minimal_recipe(("{mean: returns}", "{mean: correct}")),
    right=MINIMAL_RECIPE,
)
CODES = (BAD_METRIC,)


@record
class Metric:
    kind: MetricKind
    node: str
    range: Interval
    # Of pass@k.
    k: int | None = None
    lower_is_better: bool = False
    # Whether it is a metric of a training stage on held-out rows.
    held_out: bool = False

    def step_params(self) -> MetricDefinition:
        low, high = self.range.low, self.range.high
        bounded = self.kind == "mean" and isfinite(low) and isfinite(high)
        return MetricDefinition(
            kind=self.kind, node=self.node, range=(low, high) if bounded else None, k=self.k
        )


# The metrics that every eval has, by the names that a gate can use.
_SHARE = Interval(0.0, 1.0)
BUILTIN_RATES = {
    "unscored": Metric("rate", "is unscored", _SHARE),
    "truncated": Metric("rate", "is truncated", _SHARE),
    "timed_out": Metric("rate", "is timed out", _SHARE),
}


class StageWithMetrics(Protocol):
    """A stage with metrics, as gates and training stages use it: an eval, a benchmark, or a training stage
    that evaluates held-out rows."""

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics by their public names."""
        ...

    @property
    def invalid_metrics(self) -> frozenset[str]:
        """The names of the metrics that are invalid."""
        ...

    @property
    def samples(self) -> int:
        """The number of completions per item."""
        ...

    def num_items(self, metric: str) -> int | None:
        """Return the number of items of a metric if known, or an upper bound if it is not exact."""
        ...

    def pairing_key(self, resolved: ResolvedRecipe, name: str, metric: str) -> Any:
        """Return what must be equal in two stages to compare them item by item."""
        ...


@record(kw_only=True)
class CheckedEval:
    """A checked eval stage."""

    stage: Evaluate
    graph: RewardGraph
    inference: InferenceConfig
    # The metrics that the stage declares.
    declared_metrics: Mapping[str, Metric]
    # The number of evaluated rows if known; an upper bound if it is not exact.
    num_rows: int | None

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics by their public names: of one model, or prefixed with the name of each model."""
        every = {**BUILTIN_RATES, **self.declared_metrics}
        if isinstance(self.stage.eval, str):
            return every
        return {f"{subject}.{name}": m for subject in self.stage.eval for name, m in every.items()}

    @property
    def samples(self) -> int:
        """The number of completions per row."""
        return self.stage.sampling.n

    def num_items(self, metric: str) -> int | None:
        """Return the number of rows of a metric, if known."""
        return self.num_rows

    def pairing_key(self, resolved: ResolvedRecipe, name: str, metric: str) -> Any:
        """Return what must be equal in two stages to compare them item by item."""
        return resolved.refs.get((f"stage:{name}", "data"))

    @property
    def invalid_metrics(self) -> frozenset[str]:
        """The names of the metrics that are invalid."""
        return frozenset(self.stage.metrics.keys() - self.declared_metrics.keys())

    @property
    def pinned(self) -> bool:
        """Whether the results cannot change: all endpoints are pinned."""
        return all(endpoint.pinned for endpoint in self.inference.endpoints.values())


def check_eval(
    name: str,
    stage: Evaluate,
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    graphs: Mapping[str, RewardGraph],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> CheckedEval | None:
    path: KeyPath = ("stages", name)
    ref = resolved.refs.get((f"stage:{name}", "data"))
    table = table_of(ref, rows, resolved) if ref else None
    graph = resolve_reward(stage.reward, (*path, "reward"), resolved, graphs, diagnostics)
    if ref is None or table is None or not check_part(ref, table, (*path, "data"), diagnostics):
        return None
    inference = check_inference(name, stage, table.columns, resolved, rows, request, diagnostics)
    _check_group_by(stage.group_by, table.columns, (*path, "group_by"), diagnostics)
    if graph is None or inference is None:
        return None
    check_reward_columns(graph, table.columns, (*path, "data"), diagnostics)
    metrics: dict[str, Metric] = {}
    for metric, given in stage.metrics.items():
        found = _metric(given, (*path, "metrics", metric), graph, stage, diagnostics)
        if found is not None:
            metrics[metric] = found
    count = table.max_rows(ref.part)
    return CheckedEval(
        stage=stage, graph=graph, inference=inference, declared_metrics=metrics, num_rows=count
    )


def _check_group_by(by: Sequence[str], columns: Columns, path: KeyPath, diagnostics: Diagnostics) -> None:
    """Check that `group_by` names columns of single values."""
    for index, name in enumerate(by if columns else ()):
        if name not in columns:
            help, meant = hint(name, columns, what="columns")
            message = f"the data has no column `{name}`"
            diagnostics.add(data_codes.MISSING_COLUMN, (*path, index), message, help=help, replace=meant)
        elif columns[name] not in (*SCALAR_TYPES, "any"):
            message = f"`{name}` is {columns[name]}, which cannot be used to group rows"
            diagnostics.add(data_codes.MISSING_COLUMN, (*path, index), message)


def _metric(
    given: Any, path: KeyPath, graph: RewardGraph, stage: Evaluate, diagnostics: Diagnostics
) -> Metric | None:
    kind, name = "", given
    if isinstance(given, dict) and len(cast(dict[str, Any], given)) == 1:
        kind, name = next(iter(cast(dict[str, Any], given).items()))
    if kind == "pass_at":
        return _pass_at(name, (*path, kind), graph, stage, diagnostics)
    if not isinstance(name, str) or kind not in ("", "rate", "mean"):
        message = "a metric is a node's name, {rate: NODE}, {mean: NODE} or {pass_at: {node: NODE, k: K}}"
        diagnostics.add(BAD_METRIC, path, message)
        return None
    where = (*path, kind) if kind else path
    node = _metric_node(name, where, graph, diagnostics)
    return None if node is None else _typed_metric(kind, node, graph, where, diagnostics)


def _metric_node(name: str, path: KeyPath, graph: RewardGraph, diagnostics: Diagnostics) -> str | None:
    node = graph.returns if name == "returns" else name
    value = graph.values.get(node)
    if value is not None:
        named = value.node or value.lowered.get("read")
        if named is None:
            diagnostics.add(BAD_METRIC, path, f"`{name}` is a constant, which measures nothing")
            return None
        node = named
    if node in graph.types and (node in graph.ranges or node in graph.reads):
        return node
    known = [*(n for n in graph.types if "." not in n), "returns"]
    help, meant = hint(name, known, what="nodes")
    diagnostics.add(BAD_METRIC, path, f"the reward has no node `{name}`", help=help, replace=meant)
    return None


def _pass_at(
    given: Any, path: KeyPath, graph: RewardGraph, stage: Evaluate, diagnostics: Diagnostics
) -> Metric | None:
    """Return pass@k: the probability that at least one of k completions meets a condition."""
    options: dict[str, Any] = cast(dict[str, Any], given) if isinstance(given, dict) else {}
    name, k = options.get("node"), options.get("k")
    if options.keys() != {"node", "k"} or not isinstance(name, str) or type(k) is not int or k < 1:
        diagnostics.add(BAD_METRIC, path, "pass_at takes {node: NODE, k: K}, where K is a positive integer")
        return None
    if k > stage.sampling.n:
        message = f"pass@{k} needs {k} completions per row, but `sampling.n` is {stage.sampling.n}"
        diagnostics.add(INVALID_SAMPLING, (*path, "k"), message, help=f"set `n: {k}` or more")
        return None
    node = _metric_node(name, (*path, "node"), graph, diagnostics)
    found = _typed_metric("rate", node, graph, (*path, "node"), diagnostics) if node is not None else None
    return None if found is None else replace(found, kind="pass_at", k=k)


def _typed_metric(
    kind: str, node: str, graph: RewardGraph, path: KeyPath, diagnostics: Diagnostics
) -> Metric | None:
    condition = node if graph.types[node] == "boolean" else _score_condition(node, graph)
    if kind != "mean" and condition is not None:
        return Metric("rate", condition, _SHARE)
    if kind == "rate":
        message = f"`{node}` is not a condition, so it has no rate; use its mean"
        diagnostics.add(BAD_METRIC, path, message)
        return None
    if graph.types[node] not in ("number", "integer", "boolean"):
        diagnostics.add(BAD_METRIC, path, f"`{node}` is {graph.types[node]}, which has no mean")
        return None
    return Metric("mean", node, graph.ranges.get(node, Interval.unbounded()))


def _score_condition(node: str, graph: RewardGraph) -> str | None:
    """Return the condition of a `score` node: the rate of the node is the rate of its condition."""
    for item in graph.nodes:
        if item["id"] == node and item["op"] == "score":
            when = item["operands"]["when"]
            return when.get("node") or when.get("read")
    return None
