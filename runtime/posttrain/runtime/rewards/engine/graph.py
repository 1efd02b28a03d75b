"""Evaluates a reward graph over a batch of completions.

Columns are lists, one value a row. An op is called once a batch with the columns of its operands,
slow ops side by side and once for equal rows. What None means is in `batch.py`.
"""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from posttrain.runtime.rewards.engine.batch import EPISODES, TOKENS, Batch, Column, Operands, OpResult
from posttrain.runtime.rewards.engine.nodes import Node, build_node, compute_node
from posttrain.runtime.step_context import StepContext

_MAX_SLOW_NODES = 4
_MODEL_ROLE_PREFIX = "reward:"  # the role of a model that a node scores with, before its name


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What the nodes of a graph gave for a batch."""

    # Every node's values, by node.
    values: dict[str, Column]
    # Why, by node, for those that give reasons.
    reasons: dict[str, Sequence[str | None]]


@dataclass(frozen=True, kw_only=True)
class Graph:
    reads: Mapping[str, str]
    nodes: tuple[Node, ...]
    returns: str
    files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    models: Mapping[str, Path] = field(default_factory=dict[str, Path])
    endpoints: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])

    @staticmethod
    def from_plan(
        plan: Mapping[str, Any],
        files: Mapping[str, Path] | None = None,
        access: Mapping[str, Any] | None = None,
        models: Mapping[str, Path] | None = None,
    ) -> "Graph":
        """The graph ready to run. `files` are the user's by role, `models` folders by name; `access` says
        how endpoints are reached."""
        endpoints = {
            name: {**asked, **(access or {}).get(name, {})}
            for name, asked in plan.get("endpoints", {}).items()
        }
        return Graph(
            reads=plan["reads"],
            nodes=tuple(build_node(node) for node in plan["nodes"]),
            returns=plan["returns"],
            files=files or {},
            models=models or {},
            endpoints=endpoints,
        )

    @staticmethod
    def from_step(context: StepContext) -> "Graph":
        """The graph that a step's parameters hold."""
        params, given = context.params, context.inputs
        models = {
            role.removeprefix(_MODEL_ROLE_PREFIX): given[role]
            for role in given
            if role.startswith(_MODEL_ROLE_PREFIX)
        }
        return Graph.from_plan(params["reward"], context.files, params.get("access"), models)

    @property
    def columns(self) -> list[str]:
        """The columns of the data that the graph reads beside the completion."""
        return [name for name in self.reads if name != "completion"]

    @property
    def named_nodes(self) -> list[str]:
        """The nodes that have names of their own, the reward last."""
        named = [node.id for node in self.nodes if "." not in node.id and node.id != self.returns]
        return [*named, self.returns]

    def evaluate(self, given: Mapping[str, Column], groups: Sequence[int] | None = None) -> Scores:
        """Every node's values; `given` has the completions and the columns that are read.

        `groups` numbers the prompt that each row answers, for nodes that compare completions.
        """
        count = len(next(iter(given.values())))
        batch = Batch(
            count=count,
            groups=groups,
            files=self.files,
            models=self.models,
            endpoints=self.endpoints,
            episodes=given.get(EPISODES),
            tokens=given.get(TOKENS),
        )
        reads = {name: _clean_column(given[name], type) for name, type in self.reads.items() if name in given}
        work = _Evaluation(reads, batch)
        if any(node.slow for node in self.nodes):
            _evaluate_concurrently(self.nodes, work)
        else:
            for node in self.nodes:
                work.results[node.id] = work.compute(node)
        if self.returns not in work.results:  # the reward is a column of the data
            work.results[self.returns] = OpResult(values=list(reads[self.returns]), reasons=())
        work.results[self.returns] = _drop_nonfinite(work.results[self.returns])
        return Scores(
            values={id: found.values for id, found in work.results.items()},
            reasons={id: found.reasons for id, found in work.results.items() if found.reasons},
        )


@dataclass(frozen=True)
class _Evaluation:
    """One evaluation: what is read, and what is done so far."""

    reads: Mapping[str, Column]
    batch: Batch
    results: dict[str, OpResult] = field(default_factory=dict[str, OpResult])

    def compute(self, node: Node) -> OpResult:
        operands: Operands = {
            name: [self._column(one) for one in operand]
            if isinstance(operand, list)
            else self._column(operand)
            for name, operand in node.operands.items()
        }
        unknown = frozenset[int]().union(*(self.results[id].unknown for id in node.needs))
        return compute_node(node, operands, unknown, self.batch)

    def _column(self, operand: Mapping[str, Any]) -> Column:
        if "value" in operand:
            return [operand["value"]] * self.batch.count
        return self.results[operand["node"]].values if "node" in operand else self.reads[operand["read"]]


def _evaluate_concurrently(nodes: Sequence[Node], work: _Evaluation) -> None:
    """Slow nodes start as soon as what they read is there; the others are computed meanwhile."""
    waiting = {node.id: node for node in nodes}
    started: dict[Future[OpResult], Node] = {}
    with ThreadPoolExecutor(_MAX_SLOW_NODES, thread_name_prefix="reward") as pool:
        while waiting or started:
            ready = [node for node in waiting.values() if node.needs <= work.results.keys()]
            for node in ready:
                del waiting[node.id]
            started |= {pool.submit(work.compute, node): node for node in ready if node.slow}
            quick = [node for node in ready if not node.slow]
            for node in quick:
                work.results[node.id] = work.compute(node)
            if not quick and started:
                for future in wait(started, return_when=FIRST_COMPLETED).done:
                    work.results[started.pop(future).id] = future.result()


def _clean_column(column: Column, type: str) -> Column:
    """A column as it is read: a number that is none, as Parquet may have it, is no value."""
    if type not in ("number", "integer"):
        return column
    return [None if value is None or not math.isfinite(value) else value for value in column]


def _drop_nonfinite(found: OpResult) -> OpResult:
    """The reward, without values that no one can learn from."""
    bad = [row for row, value in enumerate(found.values) if value is not None and not math.isfinite(value)]
    if not bad:
        return found
    values, reasons = list(found.values), list(found.reasons) or [None] * len(found.values)
    for row in bad:
        values[row], reasons[row] = None, f"the value is {found.values[row]}"
    return replace(found, values=values, reasons=reasons)


def mean_of_present(values: Sequence[Any]) -> float | None:
    """The mean of the values that there are."""
    kept = [float(value) for value in values if value is not None]
    return sum(kept) / len(kept) if kept else None
