"""Lowers the expressions of one reward to a flat list of nodes, in dependency order."""

from collections.abc import Mapping
from typing import Any, cast

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.rewards import reward_codes
from posttrain.compiler.rewards.op_arguments import OpArguments, parse_arguments
from posttrain.compiler.rewards.operand_values import (
    BOOLEAN_RANGE,
    Operands,
    Value,
    as_list,
    clamp_to_type,
    literal_value,
    lower_operands,
    operand_ranges,
)
from posttrain.compiler.rewards.operands import OperandReader
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.compiler.user_files import user_file
from posttrain.spec.column_types import Interval, Type, is_assignable
from posttrain.spec.declaration_fields import dump_declaration
from posttrain.spec.declarations import Endpoint, Reward
from posttrain.spec.diagnostic import Code
from posttrain.spec.extension import Params, RewardOp
from posttrain.spec.plan import UserFile
from posttrain.spec.suggestions import hint

MAX_DEPTH = 100


class GraphBuilder:
    """The state of a graph during its construction. `failed` is set after an error."""

    def __init__(
        self,
        reward: Reward,
        path: KeyPath,
        endpoints: Mapping[str, Endpoint | None],
        request: CompileRequest,
        diagnostics: Diagnostics,
    ) -> None:
        self.reward = reward
        self.path = path
        self.declared_endpoints = endpoints
        self.request = request
        self.diagnostics = diagnostics
        self.nodes: list[Mapping[str, Any]] = []
        self.types: dict[str, Type] = dict(reward.reads)
        self.ranges: dict[str, Interval] = {}
        # The path of each node, and the nodes that it reads.
        self.node_paths: dict[str, KeyPath] = {}
        self.dependencies: dict[str, list[str]] = {}
        self.ops: dict[str, RewardOp] = {}
        self.used: set[str] = set()
        self.files: dict[str, UserFile] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self.failed = False
        self._values: dict[str, Value | None] = {}
        self._in_progress: list[str] = []
        self._depth = 0
        self._reader = OperandReader(self.build_expression, self.fail)

    @property
    def named_values(self) -> dict[str, Value]:
        """The values of the declared nodes. That of a name for a column or a literal is not a node."""
        return {name: value for name, value in self._values.items() if value is not None}

    def return_node(self, value: Value) -> str:
        """Return the node of a value. A bare number becomes a node."""
        returns = value.node or value.lowered.get("read")
        if returns is None:
            returns = "returns"
            self._append_node(returns, "literal", {}, dict(value.lowered), value.type, value.range)
        self.ranges.setdefault(returns, value.range)
        return returns

    def build_named(self, name: str, use: KeyPath) -> Value | None:
        """Return the node of this name, and build it on first use."""
        if name in self._values:
            return self._values[name]
        if name in self._in_progress:
            circle = " -> ".join((*self._in_progress[self._in_progress.index(name) :], name))
            return self.fail(reward_codes.CIRCULAR_NODES, use, f"circular reference: {circle}")
        self._in_progress.append(name)
        where = (*self.path, "nodes", name)
        self._values[name] = self.build_expression(self.reward.nodes[name], where, name, "any")
        self._in_progress.pop()
        return self._values[name]

    def build_expression(self, given: Any, path: KeyPath, id: str, expected: Type) -> Value | None:
        """Return the value of an expression. It becomes the node `id` unless it is a name or a literal."""
        if self._depth >= MAX_DEPTH:
            message = f"the nodes are nested more than {MAX_DEPTH} levels deep"
            return self.fail(reward_codes.BAD_NODE, path, message)
        self._depth += 1
        value = self._build_value(given, path, id)
        self._depth -= 1
        if value is not None and not is_assignable(expected, value.type):
            message = f"expected {_with_article(expected)}, got {_with_article(value.type)}"
            return self.fail(reward_codes.WRONG_OPERAND, path, message)
        return value

    def fail(self, code: Code, path: KeyPath, message: str, **more: Any) -> None:
        self.failed = True
        self.diagnostics.add(code, path, message, **more)

    def _build_value(self, given: Any, path: KeyPath, id: str) -> Value | None:
        match given:
            case bool() | int() | float():
                return literal_value(given)
            case str():
                return self._resolve_name(given, path)
            case dict() if len(cast(dict[str, Any], given)) == 1:
                return self._build_op(cast(dict[str, Any], given), path, id)
            case _:
                message = "a node is a name, a number, or one op with its operands"
                if isinstance(given, dict) and given:
                    named = ", ".join(str(key) for key in cast(dict[str, Any], given))
                    message = f"a node is one op with its operands, but there are several keys: {named}"
                return self.fail(reward_codes.BAD_NODE, path, message)

    def _resolve_name(self, name: str, path: KeyPath) -> Value | None:
        if name in self.reward.reads:
            type = self.reward.reads[name]
            return Value({"read": name}, type, BOOLEAN_RANGE if type == "boolean" else Interval.unbounded())
        if name in self.reward.nodes:
            self.used.add(name)
            return self.build_named(name, path)
        help, meant = hint(name, (*self.reward.reads, *self.reward.nodes), what="names in this graph")
        if meant is None and not name.isidentifier():
            help = f"{help}; write literal text as {{text: {name}}}"
        message = f"`{name}` is neither in `reads` nor a node of this graph"
        return self.fail(reward_codes.UNKNOWN_NODE, path, message, help=help, replace=meant)

    def _build_op(self, given: dict[str, Any], path: KeyPath, id: str) -> Value | None:
        name, body = next(iter(given.items()))
        if name == "text" and isinstance(body, str):
            return Value({"value": body}, "text", Interval.unbounded())
        op = self.request.catalog.find("reward", name)
        where = (*path, name)
        if not isinstance(op, RewardOp):
            from posttrain.compiler.diagnosis.key_suggestions import op_hint

            help, meant = op_hint(name, ("text", *self.request.catalog.names("reward")))
            message = f"there is no reward op `{name}`"
            return self.fail(reward_codes.UNKNOWN_OP, where, message, key=True, help=help, replace=meant)
        read = parse_arguments(op, body, where, self.diagnostics)
        operands = self._reader.read(op, read, id)
        if operands is None or read.params is None or read.has_errors:
            self.failed = True
            return None
        if not self._check_remarks(op, read, operands) or not self._check_resources(op, read):
            return None
        return self._emit_node(op, read.params, operands, where, id)

    def _emit_node(self, op: RewardOp, params: Params, operands: Operands, path: KeyPath, id: str) -> Value:
        type = op.infer_type(params) if op.infer_type else op.yields
        reach = clamp_to_type(op.range(params, operand_ranges(operands)), type)
        dumped = dump_declaration(params)
        self._append_node(id, op.name, lower_operands(operands), dumped, type, reach)
        self.node_paths[id] = path
        self.dependencies[id] = [
            one.node for value in operands.values() for one in as_list(value) if one.node
        ]
        self.ops[op.name] = op
        return Value({"node": id}, type, reach)

    def _append_node(self, id: str, op: str, operands: Any, params: Any, type: Type, reach: Interval) -> None:
        self.nodes.append({"id": id, "op": op, "operands": operands, "params": params})
        self.types[id] = type
        self.ranges[id] = reach

    def _check_remarks(self, op: RewardOp, body: OpArguments, operands: Operands) -> bool:
        """Report the remarks that the op makes about its operands."""
        refused = False
        for remark in op.remarks(body.params, operand_ranges(operands)):
            where = (*body.path, *remark.at) if body.by_name else body.path
            self.diagnostics.add(reward_codes.REMARKS[remark.kind], where, remark.message, help=remark.help)
            refused = refused or remark.kind == "refused"
        self.failed = self.failed or refused
        return not refused

    def _check_resources(self, op: RewardOp, body: OpArguments) -> bool:
        """Resolve the user files and the endpoints that the op needs."""
        good = True
        for name in op.files(body.params):
            found = user_file(name, body.path, self.request, self.diagnostics)
            good = good and found is not None
            if found is not None:
                self.files[f"reward:{name}"] = found[0]
        for name in op.endpoints(body.params):
            good = self._resolve_endpoint(name, body) and good
        self.failed = self.failed or not good
        return good

    def _resolve_endpoint(self, name: str, body: OpArguments) -> bool:
        endpoint = self.declared_endpoints.get(name)
        if endpoint is not None:
            self.endpoints[name] = endpoint
            return True
        if name not in self.declared_endpoints:
            help, meant = hint(name, self.declared_endpoints, what="endpoints")
            message = f"there is no endpoint `{name}`"
            where = (*body.path, "endpoint")
            self.fail(reward_codes.UNKNOWN_ENDPOINT, where, message, help=help, replace=meant)
        return False


def _with_article(type: Type) -> str:
    return {"any": "anything", "integer": "an integer", "text": "text"}.get(type, f"a {type}")
