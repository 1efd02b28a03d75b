"""One node of a reward graph: its op made ready, and called for a batch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.errors import StepError
from posttrain.runtime.rewards.engine.batch import Batch, Column, Operands, OpResult
from posttrain.spec.extension import RewardOp
from posttrain.spec.validation import parse_declaration

_ABSTAINING_TYPES = ("number", "integer", "boolean")
UNKNOWN_REASON = "what this reads could not be told"


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
        return self.type in _ABSTAINING_TYPES


def build_node(plan: Mapping[str, Any]) -> Node:
    """A node of a plan with its op looked up and its parameters read, once for all batches."""
    operands = plan["operands"]
    needs = frozenset(one["node"] for one in _flatten_operands(operands) if "node" in one)
    if plan["op"] == "literal":
        value = plan["params"]["value"]
        return Node(id=plan["id"], run=_literal, params=value, operands={}, needs=needs)
    op = CATALOG.find("reward", plan["op"])
    assert isinstance(op, RewardOp), f"the catalog lost the reward op {plan['op']}"
    params = parse_declaration(op.params, plan["params"])
    return Node(
        id=plan["id"],
        run=CATALOG.run("reward", plan["op"]),
        params=params,
        operands=operands,
        needs=needs,
        type=op.infer_type(params) if op.infer_type else op.yields,
        slow=op.slow,
    )


def compute_node(node: Node, operands: Operands, unknown: frozenset[int], batch: Batch) -> OpResult:
    """The node's column. Rows of which an operand is unknown are not asked for, or not believed."""
    try:
        if node.slow:
            found = _compute_distinct(node, operands, unknown, batch)
        else:
            found = _as_result(node.run(node.params, operands, batch), batch.count)
    except StepError as fault:
        message = f"the reward's node `{node.id}`: {fault}"
        raise StepError(message, fault.advice, retriable=fault.retriable) from None
    return _mask_unknown(found, unknown, node) if unknown else found


def _as_result(given: Column | OpResult, count: int) -> OpResult:
    found = given if isinstance(given, OpResult) else OpResult(values=given, reasons=())
    assert len(found.values) == count, f"{len(found.values)} values for {count} rows"
    return found


def _mask_unknown(found: OpResult, unknown: frozenset[int], node: Node) -> OpResult:
    values, reasons = list(found.values), list(found.reasons) or [None] * len(found.values)
    for row in unknown:
        values[row], reasons[row] = None, UNKNOWN_REASON
    lasting = frozenset[int]() if node.abstains else found.unknown | unknown
    return OpResult(values=values, reasons=reasons, unknown=lasting)


def _compute_distinct(node: Node, operands: Operands, unknown: frozenset[int], batch: Batch) -> OpResult:
    """Call a slow op once for rows that are equal in all that it reads."""
    columns = [column for name, value in operands.items() for column in _operand_columns(node, name, value)]
    first: dict[Any, int] = {}
    places: list[int | None] = []
    for row in range(batch.count):
        key = None if row in unknown else tuple(_hashable(column[row]) for column in columns)
        places.append(None if key is None else first.setdefault(key, len(first)))
    rows = _first_rows(places, len(first))
    fewer = {name: _select_rows(node, name, value, rows) for name, value in operands.items()}
    found = OpResult(values=[], reasons=())
    if rows:
        found = _as_result(
            node.run(node.params, fewer, replace(batch, count=len(rows), groups=None)), len(rows)
        )
    return _scatter(found, places)


def _first_rows(places: Sequence[int | None], count: int) -> list[int]:
    rows: list[int] = []
    for row, place in enumerate(places):
        if place == len(rows) and len(rows) < count:
            rows.append(row)
    return rows


def _scatter(found: OpResult, places: Sequence[int | None]) -> OpResult:
    values = [None if place is None else found.values[place] for place in places]
    reasons = [None if place is None or not found.reasons else found.reasons[place] for place in places]
    unknown = frozenset(row for row, place in enumerate(places) if place in found.unknown)
    return OpResult(values=values, reasons=reasons, unknown=unknown)


def _literal(value: Any, operands: Operands, batch: Batch) -> Column:
    return [value] * batch.count


def _flatten_operands(operands: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for one in operands.values():
        found += one if isinstance(one, list) else [one]
    return found


def _operand_columns(node: Node, name: str, operand: Any) -> list[Column]:
    """An operand is one column, or a list of them."""
    return operand if isinstance(node.operands[name], list) else [operand]


def _select_rows(node: Node, name: str, operand: Any, rows: Sequence[int]) -> Any:
    taken = [[column[row] for row in rows] for column in _operand_columns(node, name, operand)]
    return taken if isinstance(node.operands[name], list) else taken[0]


def _hashable(value: Any) -> Any:
    return json.dumps(value, sort_keys=True, default=str) if isinstance(value, list | dict) else value
