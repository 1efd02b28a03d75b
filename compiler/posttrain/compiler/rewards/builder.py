"""Turns the expressions of one reward into a flat list of nodes, each after those that it needs."""

from collections.abc import Mapping
from typing import Any, cast

from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.files import user_file
from posttrain.compiler.rewards import codes
from posttrain.compiler.rewards.body import Body, read_body
from posttrain.compiler.rewards.operands import OperandReader
from posttrain.compiler.rewards.values import (
    BOOLEAN,
    Operands,
    Value,
    listed,
    literal,
    plans,
    ranges,
    within_type,
)
from posttrain.compiler.text.source import Request
from posttrain.compiler.text.tree import Path
from posttrain.spec.declared import written
from posttrain.spec.diagnostic import Code
from posttrain.spec.extension import Params, RewardOp
from posttrain.spec.materials import Endpoint, Reward
from posttrain.spec.plan import UserFile
from posttrain.spec.types import Interval, Type, accepts

MOST_NESTED = 100


class Builder:
    """What is known of a graph while it is built. `failed` once something was reported as an error."""

    def __init__(
        self,
        reward: Reward,
        path: Path,
        endpoints: Mapping[str, Endpoint | None],
        request: Request,
        findings: Findings,
    ) -> None:
        self.reward = reward
        self.path = path
        self.declared = endpoints
        self.request = request
        self.findings = findings
        self.nodes: list[Mapping[str, Any]] = []
        self.types: dict[str, Type] = dict(reward.reads)
        self.ranges: dict[str, Interval] = {}
        # Where each node was written, and the nodes that it reads.
        self.places: dict[str, Path] = {}
        self.below: dict[str, list[str]] = {}
        self.ops: dict[str, RewardOp] = {}
        self.used: set[str] = set()
        self.files: dict[str, UserFile] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self.failed = False
        self._values: dict[str, Value | None] = {}
        self._under_way: list[str] = []
        self._depth = 0
        self._reader = OperandReader(self.expression, self.fail)

    def result(self, value: Value) -> str:
        """The name under which a value is found: a bare number becomes a node of its own."""
        returns = value.node or value.plan.get("read")
        if returns is None:
            returns = "returns"
            self._add(returns, "literal", {}, dict(value.plan), value.type, value.range)
        self.ranges.setdefault(returns, value.range)
        return returns

    def named(self, name: str, use: Path) -> Value | None:
        """The node of this name, built when first asked for."""
        if name in self._values:
            return self._values[name]
        if name in self._under_way:
            circle = " -> ".join((*self._under_way[self._under_way.index(name) :], name))
            return self.fail(codes.NODE_CIRCLE, use, f"these nodes need each other: {circle}")
        self._under_way.append(name)
        where = (*self.path, "nodes", name)
        self._values[name] = self.expression(self.reward.nodes[name], where, name, "any")
        self._under_way.pop()
        return self._values[name]

    def expression(self, given: Any, path: Path, id: str, wanted: Type) -> Value | None:
        """The value of an expression, which becomes the node `id` unless it is a name or literal."""
        if self._depth >= MOST_NESTED:
            message = f"nodes build on each other more than {MOST_NESTED} deep"
            return self.fail(codes.BAD_NODE, path, message)
        self._depth += 1
        value = self._value(given, path, id)
        self._depth -= 1
        if value is not None and not accepts(wanted, value.type):
            message = f"{_a(wanted)} is wanted here; this is {_a(value.type)}"
            return self.fail(codes.WRONG_OPERAND, path, message)
        return value

    def fail(self, code: Code, path: Path, message: str, **more: Any) -> None:
        self.failed = True
        self.findings.add(code, path, message, **more)

    def _value(self, given: Any, path: Path, id: str) -> Value | None:
        match given:
            case bool() | int() | float():
                return literal(given)
            case str():
                return self._name(given, path)
            case dict() if len(cast(dict[str, Any], given)) == 1:
                return self._op(cast(dict[str, Any], given), path, id)
            case _:
                message = "a node is a name, a number, or one op with its operands"
                if isinstance(given, dict) and given:
                    named = ", ".join(str(key) for key in cast(dict[str, Any], given))
                    message = f"a node is one op with its operands; these are several: {named}"
                return self.fail(codes.BAD_NODE, path, message)

    def _name(self, name: str, path: Path) -> Value | None:
        if name in self.reward.reads:
            type = self.reward.reads[name]
            return Value({"read": name}, type, BOOLEAN if type == "boolean" else Interval.everything())
        if name in self.reward.nodes:
            self.used.add(name)
            return self.named(name, path)
        help, meant = hint(name, (*self.reward.reads, *self.reward.nodes), what="known in this graph")
        if meant is None and not name.isidentifier():
            help = f"{help}; for the words themselves write {{text: {name}}}"
        message = f"`{name}` is neither read nor a node of this graph"
        return self.fail(codes.UNKNOWN_NODE, path, message, help=help, replace=meant)

    def _op(self, given: dict[str, Any], path: Path, id: str) -> Value | None:
        name, body = next(iter(given.items()))
        if name == "text" and isinstance(body, str):
            return Value({"value": body}, "text", Interval.everything())
        op = self.request.catalog.find("reward", name)
        where = (*path, name)
        if not isinstance(op, RewardOp):
            from posttrain.compiler.diagnosis.synonyms import op_hint

            help, meant = op_hint(name, ("text", *self.request.catalog.names("reward")))
            message = f"there is no reward op `{name}`"
            return self.fail(codes.UNKNOWN_OP, where, message, key=True, help=help, replace=meant)
        read = read_body(op, body, where, self.findings)
        operands = self._reader.read(op, read, id)
        if operands is None or read.params is None or read.mistaken:
            self.failed = True
            return None
        if not self._suits(op, read, operands) or not self._beside(op, read):
            return None
        return self._node(op, read.params, operands, where, id)

    def _node(self, op: RewardOp, params: Params, operands: Operands, path: Path, id: str) -> Value:
        type = op.typed(params) if op.typed else op.yields
        reach = within_type(op.range(params, ranges(operands)), type)
        dumped = written(params)
        self._add(id, op.name, plans(operands), dumped, type, reach)
        self.places[id] = path
        self.below[id] = [one.node for value in operands.values() for one in listed(value) if one.node]
        self.ops[op.name] = op
        return Value({"node": id}, type, reach)

    def _add(self, id: str, op: str, operands: Any, params: Any, type: Type, reach: Interval) -> None:
        self.nodes.append({"id": id, "op": op, "operands": operands, "params": params})
        self.types[id] = type
        self.ranges[id] = reach

    def _suits(self, op: RewardOp, body: Body, operands: Operands) -> bool:
        """What the op itself has to say about its operands."""
        refused = False
        for remark in op.remarks(body.params, ranges(operands)):
            where = (*body.path, *remark.at) if body.named else body.path
            self.findings.add(codes.REMARKS[remark.kind], where, remark.message, help=remark.help)
            refused = refused or remark.kind == "refused"
        self.failed = self.failed or refused
        return not refused

    def _beside(self, op: RewardOp, body: Body) -> bool:
        """The user's files and the endpoints that the op needs."""
        good = True
        for name in op.files(body.params):
            found = user_file(name, body.path, self.request.read, self.findings)
            good = good and found is not None
            if found is not None:
                self.files[f"reward:{name}"] = found[0]
        for name in op.endpoints(body.params):
            good = self._endpoint(name, body) and good
        self.failed = self.failed or not good
        return good

    def _endpoint(self, name: str, body: Body) -> bool:
        endpoint = self.declared.get(name)
        if endpoint is not None:
            self.endpoints[name] = endpoint
            return True
        if name not in self.declared:
            help, meant = hint(name, self.declared, what="endpoints")
            message = f"there is no endpoint `{name}`"
            where = (*body.path, "endpoint")
            self.fail(codes.UNKNOWN_ENDPOINT, where, message, help=help, replace=meant)
        return False


def _a(type: Type) -> str:
    return {"any": "anything", "integer": "an integer", "text": "text"}.get(type, f"a {type}")
