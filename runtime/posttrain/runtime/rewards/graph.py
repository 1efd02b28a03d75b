"""Evaluates a reward graph over a batch of completions.

Columns are lists, one value a row. An op is called once a batch with the columns of its operands.
A value of None means that there is none: text that was not found, a verdict that was not reached.
It is never taken for zero: a number made from None is None, and its row counts as unscored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.catalog import CATALOG

Column = list[Any]


@dataclass(frozen=True)
class Graph:
    reads: Mapping[str, str]
    nodes: tuple[Mapping[str, Any], ...]
    returns: str

    @staticmethod
    def from_plan(plan: Mapping[str, Any]) -> "Graph":
        return Graph(plan["reads"], tuple(plan["nodes"]), plan["returns"])

    @property
    def columns(self) -> list[str]:
        """The columns of the data that the graph reads beside the completion."""
        return [name for name in self.reads if name != "completion"]

    def evaluate(self, given: Mapping[str, Column]) -> dict[str, Column]:
        """Every node's values, by node; `given` has the completions and the columns that are read."""
        count = len(given["completion"]) if "completion" in given else len(next(iter(given.values())))
        values: dict[str, Column] = {}
        for node in self.nodes:
            values[node["id"]] = _node(node, given, values, count)
        if self.returns not in values:  # the reward is a column of the data
            values[self.returns] = list(given[self.returns])
        return values

    @property
    def shown(self) -> list[str]:
        """The nodes that have names of their own, the reward last."""
        named = [node["id"] for node in self.nodes if "." not in node["id"] and node["id"] != self.returns]
        return [*named, self.returns]


def _node(
    node: Mapping[str, Any], given: Mapping[str, Column], values: Mapping[str, Column], count: int
) -> Column:
    if node["op"] == "literal":
        return [node["params"]["value"]] * count
    extension = CATALOG.find("reward", node["op"])
    assert extension is not None, f"the catalog lost the reward op {node['op']}"
    operands = {
        field: [_column(one, given, values, count) for one in operand]
        if isinstance(operand, list)
        else _column(operand, given, values, count)
        for field, operand in node["operands"].items()
    }
    params = extension.params.model_validate(node["params"])
    result = CATALOG.run("reward", node["op"])(params, operands, count)
    assert len(result) == count, f"{node['op']} gave {len(result)} values for {count} rows"
    return result


def _column(
    operand: Mapping[str, Any], given: Mapping[str, Column], values: Mapping[str, Column], count: int
) -> Column:
    if "value" in operand:
        return [operand["value"]] * count
    return values[operand["node"]] if "node" in operand else list(given[operand["read"]])


def mean(values: Sequence[Any]) -> float | None:
    """The mean of the values that there are."""
    kept = [float(value) for value in values if value is not None]
    return sum(kept) / len(kept) if kept else None
