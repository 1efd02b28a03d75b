"""One node of a reward graph: its op made ready, and called for a batch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.faults import StepFault
from posttrain.runtime.rewards.batch import Batch, Column, Operands, Reasoned
from posttrain.spec.extension import RewardOp
from posttrain.spec.reading import read

_ABSTAINING = ("number", "integer", "boolean")
UNKNOWN = "what this reads could not be told"


@dataclass(frozen=True, kw_only=True)
class Node:
    id: str
    run: Any
    params: Any
    operands: Mapping[str, Any]
    # The nodes that it reads.
    needs: frozenset[str]
    type: str = "number"
    slow: bool = False

    @property
    def abstains(self) -> bool:
        """Whether None says that there is no value, and not that it is absent."""
        return self.type in _ABSTAINING


def node_from(plan: Mapping[str, Any]) -> Node:
    """A node of a plan with its op looked up and its parameters read, once for all batches."""
    operands = plan["operands"]
    needs = frozenset(one["node"] for one in _each(operands) if "node" in one)
    if plan["op"] == "literal":
        value = plan["params"]["value"]
        return Node(id=plan["id"], run=_literal, params=value, operands={}, needs=needs)
    op = CATALOG.find("reward", plan["op"])
    assert isinstance(op, RewardOp), f"the catalog lost the reward op {plan['op']}"
    params = read(op.params, plan["params"])
    return Node(
        id=plan["id"],
        run=CATALOG.run("reward", plan["op"]),
        params=params,
        operands=operands,
        needs=needs,
        type=op.typed(params) if op.typed else op.yields,
        slow=op.slow,
    )


def compute(node: Node, operands: Operands, unknown: frozenset[int], batch: Batch) -> Reasoned:
    """The node's column. Rows of which an operand is unknown are not asked for, or not believed."""
    try:
        if node.slow:
            found = _distinct(node, operands, unknown, batch)
        else:
            found = _reasoned(node.run(node.params, operands, batch), batch.count)
    except StepFault as fault:
        message = f"the reward's node `{node.id}`: {fault}"
        raise StepFault(message, fault.advice, retriable=fault.retriable) from None
    return _without(found, unknown, node) if unknown else found


def _reasoned(given: Column | Reasoned, count: int) -> Reasoned:
    found = given if isinstance(given, Reasoned) else Reasoned(values=given, reasons=())
    assert len(found.values) == count, f"{len(found.values)} values for {count} rows"
    return found


def _without(found: Reasoned, unknown: frozenset[int], node: Node) -> Reasoned:
    values, reasons = list(found.values), list(found.reasons) or [None] * len(found.values)
    for row in unknown:
        values[row], reasons[row] = None, UNKNOWN
    lasting = frozenset[int]() if node.abstains else found.unknown | unknown
    return Reasoned(values=values, reasons=reasons, unknown=lasting)


def _distinct(node: Node, operands: Operands, unknown: frozenset[int], batch: Batch) -> Reasoned:
    """Call a slow op once for rows that are equal in all that it reads."""
    columns = [column for name, value in operands.items() for column in _columns(node, name, value)]
    first: dict[Any, int] = {}
    places: list[int | None] = []
    for row in range(batch.count):
        key = None if row in unknown else tuple(_hashable(column[row]) for column in columns)
        places.append(None if key is None else first.setdefault(key, len(first)))
    rows = _first_rows(places, len(first))
    fewer = {name: _taken(node, name, value, rows) for name, value in operands.items()}
    found = Reasoned(values=[], reasons=())
    if rows:
        found = _reasoned(
            node.run(node.params, fewer, replace(batch, count=len(rows), groups=None)), len(rows)
        )
    return _spread(found, places)


def _first_rows(places: Sequence[int | None], count: int) -> list[int]:
    rows: list[int] = []
    for row, place in enumerate(places):
        if place == len(rows) and len(rows) < count:
            rows.append(row)
    return rows


def _spread(found: Reasoned, places: Sequence[int | None]) -> Reasoned:
    values = [None if place is None else found.values[place] for place in places]
    reasons = [None if place is None or not found.reasons else found.reasons[place] for place in places]
    unknown = frozenset(row for row, place in enumerate(places) if place in found.unknown)
    return Reasoned(values=values, reasons=reasons, unknown=unknown)


def _literal(value: Any, operands: Operands, batch: Batch) -> Column:
    return [value] * batch.count


def _each(operands: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for one in operands.values():
        found += one if isinstance(one, list) else [one]
    return found


def _columns(node: Node, name: str, operand: Any) -> list[Column]:
    """An operand is one column, or a list of them."""
    return operand if isinstance(node.operands[name], list) else [operand]


def _taken(node: Node, name: str, operand: Any, rows: Sequence[int]) -> Any:
    taken = [[column[row] for row in rows] for column in _columns(node, name, operand)]
    return taken if isinstance(node.operands[name], list) else taken[0]


def _hashable(value: Any) -> Any:
    return json.dumps(value, sort_keys=True, default=str) if isinstance(value, list | dict) else value
