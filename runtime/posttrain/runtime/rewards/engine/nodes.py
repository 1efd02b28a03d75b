"""One node of a reward graph: builds it from the plan, and computes it for a batch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.errors import StepError
from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.rewards.engine.batch import Batch, Column, Operands, OpResult
from posttrain.runtime.user_errors import FIX_EXTENSION, extension_traceback
from posttrain.spec.extension import RewardOp
from posttrain.spec.step_params.reward_params import RewardNode

_ABSTAINING_TYPES = ("number", "integer", "boolean")
UNKNOWN_REASON = "an input of this node is unknown"


@dataclass(frozen=True, kw_only=True)
class Node:
    id: str
    run: Any
    params: Any
    operands: Mapping[str, Any]
    # The ids of the nodes that it reads.
    needs: frozenset[str]
    type: str = "number"
    slow: bool = False

    @property
    def abstains(self) -> bool:
        """Whether None is an abstention. For text, None means absent."""
        return self.type in _ABSTAINING_TYPES


def build_node(plan: RewardNode) -> Node:
    """Build a node of a plan: find its op and parse its parameters, once for all batches."""
    operands = plan.operands
    needs = frozenset(one["node"] for one in _flatten_operands(operands) if "node" in one)
    if plan.op == "literal":
        value = plan.params["value"]
        return Node(id=plan.id, run=_literal, params=value, operands={}, needs=needs)
    op = CATALOG.find("reward", plan.op)
    assert isinstance(op, RewardOp), f"the catalog has no reward op {plan.op}"
    params = read_extension_params(op.params, plan.params)
    return Node(
        id=plan.id,
        run=CATALOG.run("reward", plan.op),
        params=params,
        operands=operands,
        needs=needs,
        type=op.infer_type(params) if op.infer_type else op.yields,
        slow=op.slow,
    )


def compute_node(node: Node, operands: Operands, unknown: frozenset[int], batch: Batch) -> OpResult:
    """Compute the node for a batch. Rows with an unknown operand are skipped or masked."""
    try:
        if node.slow:
            result = _compute_distinct(node, operands, unknown, batch)
        else:
            result = _as_result(node.run(node.params, operands, batch), batch.count)
    except StepError as error:
        message = f"the reward node `{node.id}`: {error}"
        raise StepError(message, error.advice, retriable=error.retriable, details=error.details) from None
    except Exception as error:
        details = extension_traceback(error)
        if not details:
            raise
        message = f"the reward node `{node.id}`: {type(error).__name__}: {error}"
        raise StepError(message, FIX_EXTENSION, details=details) from error
    return _mask_unknown(result, unknown, node) if unknown else result


def _as_result(output: Column | OpResult, count: int) -> OpResult:
    result = output if isinstance(output, OpResult) else OpResult(values=output, reasons=())
    assert len(result.values) == count, f"{len(result.values)} values for {count} rows"
    return result


def _mask_unknown(result: OpResult, unknown: frozenset[int], node: Node) -> OpResult:
    values, reasons = list(result.values), list(result.reasons) or [None] * len(result.values)
    for row in unknown:
        values[row], reasons[row] = None, UNKNOWN_REASON
    still_unknown = frozenset[int]() if node.abstains else result.unknown | unknown
    return OpResult(values=values, reasons=reasons, unknown=still_unknown)


def _compute_distinct(node: Node, operands: Operands, unknown: frozenset[int], batch: Batch) -> OpResult:
    """Call a slow op once for all rows with equal operands, and not for rows with unknown ones."""
    columns = [column for name, value in operands.items() for column in _operand_columns(node, name, value)]
    first: dict[Any, int] = {}
    places: list[int | None] = []
    for row in range(batch.count):
        key = None if row in unknown else tuple(_hashable(column[row]) for column in columns)
        places.append(None if key is None else first.setdefault(key, len(first)))
    rows = _first_rows(places, len(first))
    selected = {name: _select_rows(node, name, value, rows) for name, value in operands.items()}
    result = OpResult(values=[], reasons=())
    if rows:
        result = _as_result(
            node.run(node.params, selected, replace(batch, count=len(rows), groups=None, places=rows)),
            len(rows),
        )
    return _scatter(result, places)


def _first_rows(places: Sequence[int | None], count: int) -> list[int]:
    rows: list[int] = []
    for row, place in enumerate(places):
        if place == len(rows) and len(rows) < count:
            rows.append(row)
    return rows


def _scatter(result: OpResult, places: Sequence[int | None]) -> OpResult:
    values = [None if place is None else result.values[place] for place in places]
    reasons = [None if place is None or not result.reasons else result.reasons[place] for place in places]
    unknown = frozenset(row for row, place in enumerate(places) if place in result.unknown)
    return OpResult(values=values, reasons=reasons, unknown=unknown)


def _literal(value: Any, operands: Operands, batch: Batch) -> Column:
    return [value] * batch.count


def _flatten_operands(operands: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    flat: list[Mapping[str, Any]] = []
    for one in operands.values():
        flat += one if isinstance(one, list) else [one]
    return flat


def _operand_columns(node: Node, name: str, operand: Any) -> list[Column]:
    """The columns of an operand, which is one column or a list of columns."""
    return operand if isinstance(node.operands[name], list) else [operand]


def _select_rows(node: Node, name: str, operand: Any, rows: Sequence[int]) -> Any:
    taken = [[column[row] for row in rows] for column in _operand_columns(node, name, operand)]
    return taken if isinstance(node.operands[name], list) else taken[0]


def _hashable(value: Any) -> Any:
    return json.dumps(value, sort_keys=True, default=str) if isinstance(value, list | dict) else value
