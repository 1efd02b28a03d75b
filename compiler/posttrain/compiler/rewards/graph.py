"""Builds one reward graph: resolves names, types operands, derives ranges, flattens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from posttrain.compiler.findings import Findings
from posttrain.compiler.rewards import codes
from posttrain.compiler.suggest import hint
from posttrain.compiler.tree import Mapped, Path, at
from posttrain.compiler.validate import validate
from posttrain.spec.extension import Catalog, Operand, Params, RewardOp
from posttrain.spec.recipe import Reward
from posttrain.spec.types import Interval, Type, accepts, is_type

BOOLEAN = Interval(0.0, 1.0)
MOST_NESTED = 100


@dataclass(frozen=True, slots=True)
class Value:
    """What an operand stands for: a read, a node or a literal, with its type and range."""

    plan: Mapping[str, Any]
    type: Type
    range: Interval


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A checked reward graph. `nodes` are in an order in which they can be computed."""

    reads: Mapping[str, Type]
    nodes: tuple[Mapping[str, Any], ...]
    returns: str
    types: Mapping[str, Type]
    ranges: Mapping[str, Interval]
    ops: tuple[RewardOp, ...]
    # Named nodes that something in the graph uses.
    used: frozenset[str]

    @property
    def range(self) -> Interval:
        return self.ranges[self.returns]


def build(reward: Reward, path: Path, catalog: Catalog, findings: Findings) -> Graph | None:
    """The graph, or None when something in it is wrong."""
    for name, type in reward.reads.items():
        if not is_type(type):
            help, meant = hint(type, ("text", "integer", "number", "boolean", "messages", "any"))
            message = f"`{type}` is no type"
            findings.add(codes.BAD_TYPE, (*path, "reads", name), message, help=help, replace=meant)
            return None
    builder = _Builder(reward, path, catalog, findings)
    for name in reward.nodes:
        builder.named(name, (*path, "nodes", name))
    result = builder.expression(reward.returns, (*path, "returns"), "returns", "number")
    if builder.failed or result is None:
        return None
    graph = builder.graph(result)
    if graph.range.constant:
        message = f"this reward is {graph.range.low:g} whatever the model writes"
        findings.add(codes.CONSTANT_REWARD, (*path, "returns"), message)
    return graph


class _Builder:
    def __init__(self, reward: Reward, path: Path, catalog: Catalog, findings: Findings) -> None:
        self.reward = reward
        self.path = path
        self.catalog = catalog
        self.findings = findings
        self.values: dict[str, Value | None] = {}
        self.nodes: list[Mapping[str, Any]] = []
        self.types: dict[str, Type] = dict(reward.reads)
        self.ranges: dict[str, Interval] = {}
        self.ops: dict[str, RewardOp] = {}
        self.under_way: list[str] = []
        self.used: set[str] = set()
        self.failed = False

    def graph(self, result: Value) -> Graph:
        returns = str(result.plan.get("node") or result.plan.get("read") or "")
        if not returns:  # a bare number: a graph of one literal
            returns = self._add("returns", "literal", {}, result.plan, "number", result.range)
        self.ranges.setdefault(returns, result.range)
        return Graph(
            reads=dict(self.reward.reads),
            nodes=tuple(self.nodes),
            returns=returns,
            types=self.types,
            ranges=self.ranges,
            ops=tuple(self.ops[name] for name in sorted(self.ops)),
            used=frozenset(self.used),
        )

    def named(self, name: str, use: Path) -> Value | None:
        """The node of this name, built when first asked for."""
        if name in self.values:
            return self.values[name]
        if name in self.under_way:
            circle = " -> ".join((*self.under_way[self.under_way.index(name) :], name))
            return self._fail(codes.NODE_CIRCLE, use, f"these nodes need each other: {circle}")
        if len(self.under_way) >= MOST_NESTED:
            message = f"nodes build on each other more than {MOST_NESTED} deep"
            return self._fail(codes.BAD_NODE, use, message)
        self.under_way.append(name)
        where = (*self.path, "nodes", name)
        self.values[name] = self.expression(self.reward.nodes[name], where, name, "any")
        self.under_way.pop()
        return self.values[name]

    def expression(self, given: Any, path: Path, id: str, wanted: Type) -> Value | None:
        """The value of an expression, which becomes the node `id` unless it is a name or literal."""
        match given:
            case bool():
                value = Value({"value": given}, "boolean", Interval(float(given), float(given)))
            case int() | float():
                number = float(given)
                value = Value({"value": number}, "number", Interval(number, number))
            case str():
                value = self._name(given, path)
            case dict() if len(cast(dict[str, Any], given)) == 1:
                value = self._op(cast(dict[str, Any], given), path, id)
            case _:
                message = "a node is a name, a number, or one op with its operands"
                value = self._fail(codes.BAD_NODE, path, message)
        if value is not None and not accepts(wanted, value.type):
            message = f"{_a(wanted)} is wanted here; this is {_a(value.type)}"
            return self._fail(codes.WRONG_OPERAND, path, message)
        return value

    def _name(self, name: str, path: Path) -> Value | None:
        if name in self.reward.reads:
            type = self.reward.reads[name]
            reach = BOOLEAN if type == "boolean" else Interval.everything()
            return Value({"read": name}, type, reach)
        if name in self.reward.nodes:
            self.used.add(name)
            return self.named(name, path)
        help, meant = hint(name, (*self.reward.reads, *self.reward.nodes), what="known in this graph")
        message = f"`{name}` is neither read nor a node of this graph"
        return self._fail(codes.UNKNOWN_NODE, path, message, help=help, replace=meant)

    def _op(self, given: dict[str, Any], path: Path, id: str) -> Value | None:
        name, body = next(iter(given.items()))
        if name == "text" and isinstance(body, str):
            return Value({"value": body}, "text", Interval.everything())
        op = self.catalog.find("reward", name)
        where = (*path, name)
        if not isinstance(op, RewardOp):
            help, meant = hint(name, ("text", *self.catalog.names("reward")), what="reward ops")
            message = f"there is no reward op `{name}`"
            return self._fail(codes.UNKNOWN_OP, where, message, key=True, help=help, replace=meant)
        operands = self._operands(op, body, where, id)
        params = self._params(op, body, where)
        if operands is None or params is None:
            self.failed = True
            return None
        plan = {field: _plans(value) for field, value in operands.items()}
        ranges = {field: _ranges(value) for field, value in operands.items()}
        reach = BOOLEAN if op.yields == "boolean" else op.range(params, ranges)
        self.ops[name] = op
        dumped = params.model_dump(mode="json", by_alias=True)
        self._add(id, name, plan, dumped, op.yields, reach)
        return Value({"node": id}, op.yields, reach)

    def _operands(
        self, op: RewardOp, body: Any, path: Path, id: str
    ) -> dict[str, Value | list[Value]] | None:
        given, at_field = _fields(op, body)
        found: dict[str, Value | list[Value]] = {}
        good = True
        for field, operand in op.operands.items():
            where = (*path, field) if at_field else path
            if field not in given:
                good = self._default(field, operand, path, found) and good
                continue
            value = self._operand(given[field], operand, where, f"{id}.{field}")
            good = good and value is not None
            if value is not None:
                found[field] = value
        return found if good else None

    def _default(
        self, field: str, operand: Operand, path: Path, found: dict[str, Value | list[Value]]
    ) -> bool:
        if operand.required:
            self._fail(codes.BAD_NODE, path, f"the operand `{field}` is missing")
            return False
        if operand.default is not None:
            value = self.expression(operand.default, path, field, operand.type)
            assert value is not None, "a default that does not fit its own operand"
            found[field] = value
        return True

    def _operand(self, given: Any, operand: Operand, path: Path, id: str) -> Value | list[Value] | None:
        if not operand.many:
            return self.expression(given, path, id, operand.type)
        if not isinstance(given, list) or not given:
            return self._fail(codes.BAD_NODE, path, "a list of nodes is wanted here")
        items = cast(list[Any], given)
        values = [
            self.expression(item, (*path, index), f"{id}.{index}", operand.type)
            for index, item in enumerate(items)
        ]
        kept = [value for value in values if value is not None]
        return kept if len(kept) == len(values) else None

    def _params(self, op: RewardOp, body: Any, path: Path) -> Params | None:
        """The op's parameters: what its body holds beside the operands."""
        _, at_field = _fields(op, body)
        node = at(self.findings.root, path)[0]
        if not at_field or not isinstance(node, Mapped):
            return validate(op.params, Mapped({}, node.span), path, self.findings)
        legal = set(op.operands)
        own = {key: entry for key, entry in node.entries.items() if key not in legal}
        return validate(op.params, Mapped(own, node.span), path, self.findings)

    def _add(self, id: str, op: str, operands: Any, params: Any, type: Type, reach: Interval) -> str:
        self.nodes.append({"id": id, "op": op, "operands": operands, "params": params})
        self.types[id] = type
        self.ranges[id] = reach
        return id

    def _fail(self, code: Any, path: Path, message: str, **more: Any) -> None:
        self.failed = True
        self.findings.add(code, path, message, **more)


def _fields(op: RewardOp, body: Any) -> tuple[dict[str, Any], bool]:
    """The operands as written, and whether they stand under their own names."""
    if isinstance(body, dict):
        fields = cast(dict[str, Any], body)
        known = {*op.operands, *(f.alias or n for n, f in op.params.model_fields.items())}
        if not (len(fields) == 1 and not known & set(fields)):
            return fields, True
        if op.shorthand not in op.operands or not op.operands:
            return fields, True
    return {op.shorthand: body}, False


def _plans(value: Value | list[Value]) -> Any:
    return [item.plan for item in value] if isinstance(value, list) else value.plan


def _ranges(value: Value | list[Value]) -> list[Interval]:
    return [item.range for item in value] if isinstance(value, list) else [value.range]


def _a(type: Type) -> str:
    return {"any": "anything", "integer": "an integer"}.get(type, f"a {type}" if type != "text" else "text")
