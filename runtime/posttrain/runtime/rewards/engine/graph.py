"""Evaluates a reward graph over a batch of completions.

Columns are lists with one value per row. An op is called once per batch with the columns of its operands.
Slow ops run concurrently, and only once for equal rows. `batch.py` defines the meaning of None.
"""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from posttrain.runtime.engines.endpoint_client import connect_endpoint
from posttrain.runtime.rewards.engine.batch import EPISODES, TOKENS, Batch, Column, Operands, OpResult
from posttrain.runtime.rewards.engine.nodes import Node, build_node, compute_node
from posttrain.runtime.step_context import StepContext
from posttrain.spec.step_params.artifact_params import GenerateStepParams
from posttrain.spec.step_params.eval_params import EvalStepParams
from posttrain.spec.step_params.generation_params import EndpointAccess
from posttrain.spec.step_params.reward_params import RewardGraphParams
from posttrain.spec.step_params.train_params import TrainStepParams

# Parameters with a reward graph.
ScoringParams = TrainStepParams | EvalStepParams | GenerateStepParams

_MAX_SLOW_NODES = 4
_MEASURABLE_TYPES = ("number", "integer", "boolean")
_MODEL_ROLE_PREFIX = "reward:"  # a reward model's input role is this prefix and its name


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The results of all nodes for a batch."""

    # The values of each node.
    values: dict[str, Column]
    # The reasons of each node that gives reasons.
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
        plan: RewardGraphParams,
        files: Mapping[str, Path] | None = None,
        access: Mapping[str, EndpointAccess] | None = None,
        models: Mapping[str, Path] | None = None,
        record: Path | None = None,
    ) -> "Graph":
        """Build a graph from its plan. `files` are user files by role, `models` are folders by name, and
        `access` has the connection settings of endpoints. Their tokens are logged in the folder `record`."""
        endpoints = {
            name: connect_endpoint(name, endpoint, (access or {}).get(name), record)
            for name, endpoint in plan.endpoints.items()
        }
        return Graph(
            reads=plan.reads,
            nodes=tuple(build_node(node) for node in plan.nodes),
            returns=plan.returns,
            files=files or {},
            models=models or {},
            endpoints=endpoints,
        )

    @staticmethod
    def from_step(context: StepContext[ScoringParams]) -> "Graph":
        """Build the graph in a step's parameters, which must have one."""
        params, inputs = context.params, context.inputs
        models = {
            role.removeprefix(_MODEL_ROLE_PREFIX): inputs[role]
            for role in inputs
            if role.startswith(_MODEL_ROLE_PREFIX)
        }
        assert params.reward is not None, "the step has no reward graph"
        return Graph.from_plan(params.reward, context.files, params.access, models, context.work / "record")

    @property
    def columns(self) -> list[str]:
        """The data columns that the graph reads, without the completion."""
        return [name for name in self.reads if name != "completion"]

    @property
    def named_nodes(self) -> list[str]:
        """The nodes with names from the recipe. The reward is the last one."""
        named = [node.id for node in self.nodes if "." not in node.id and node.id != self.returns]
        return [*named, self.returns]

    def measurable_columns(self, columns: Mapping[str, Column]) -> dict[str, Column]:
        """The data columns that a metric can have as its node: the numbers and conditions that are read."""
        return {
            name: _clean_column(columns[name], type)
            for name, type in self.reads.items()
            if type in _MEASURABLE_TYPES and name in columns
        }

    def evaluate(self, columns: Mapping[str, Column], groups: Sequence[int] | None = None) -> Scores:
        """Evaluate all nodes. `columns` has the completions and the data columns that the graph reads.

        `groups` has the prompt number of each row, for nodes that compare completions of a prompt.
        """
        count = len(next(iter(columns.values())))
        batch = Batch(
            count=count,
            groups=groups,
            files=self.files,
            models=self.models,
            endpoints=self.endpoints,
            episodes=columns.get(EPISODES),
            tokens=columns.get(TOKENS),
        )
        reads = {
            name: _clean_column(columns[name], type) for name, type in self.reads.items() if name in columns
        }
        work = _Evaluation(reads, batch)
        if any(node.slow for node in self.nodes):
            _evaluate_concurrently(self.nodes, work)
        else:
            for node in self.nodes:
                work.results[node.id] = work.compute(node)
        if self.returns not in work.results:  # the reward is a data column
            work.results[self.returns] = OpResult(values=list(reads[self.returns]), reasons=())
        work.results[self.returns] = _drop_nonfinite(work.results[self.returns])
        return Scores(
            values={id: result.values for id, result in work.results.items()},
            reasons={id: result.reasons for id, result in work.results.items() if result.reasons},
        )


@dataclass(frozen=True)
class _Evaluation:
    """The state of one evaluation: the input columns, and the results so far."""

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
    """Start each slow node as soon as its inputs are ready. Compute the other nodes meanwhile."""
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
    """A column with NaN and infinite numbers, which Parquet allows, replaced by None."""
    if type not in ("number", "integer"):
        return column
    return [None if value is None or not math.isfinite(value) else value for value in column]


def _drop_nonfinite(result: OpResult) -> OpResult:
    """The reward with NaN and infinite values replaced by None."""
    bad = [row for row, value in enumerate(result.values) if value is not None and not math.isfinite(value)]
    if not bad:
        return result
    values, reasons = list(result.values), list(result.reasons) or [None] * len(result.values)
    for row in bad:
        values[row], reasons[row] = None, f"the value is {result.values[row]}"
    return replace(result, values=values, reasons=reasons)


def mean_of_present(values: Sequence[Any]) -> float | None:
    """The mean of the values that are not None, or None if there are none."""
    present = [float(value) for value in values if value is not None]
    return sum(present) / len(present) if present else None
