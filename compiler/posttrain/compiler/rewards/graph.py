"""Builds one reward graph: resolves names, types operands, derives ranges, flattens."""

from collections.abc import Mapping
from typing import Any

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.endpoint_params import endpoint_identity
from posttrain.compiler.rewards import reward_codes
from posttrain.compiler.rewards.constant_rewards import check_constant
from posttrain.compiler.rewards.graph_builder import GraphBuilder
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.column_types import Interval, Type, is_type
from posttrain.spec.declarations import Endpoint, Reward
from posttrain.spec.extension import RewardOp
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record


@record(kw_only=True)
class RewardGraph:
    """A checked reward graph. `nodes` are in an order in which they can be computed."""

    reads: Mapping[str, Type]
    nodes: tuple[Mapping[str, Any], ...]
    returns: str
    types: Mapping[str, Type]
    ranges: Mapping[str, Interval]
    ops: tuple[RewardOp, ...]
    # Named nodes that something in the graph uses.
    used: frozenset[str]
    # The user's files and the endpoints that nodes need, by role and by name.
    files: Mapping[str, UserFile]
    endpoints: Mapping[str, Endpoint]

    @property
    def range(self) -> Interval:
        return self.ranges[self.returns]

    @property
    def secrets(self) -> tuple[str, ...]:
        """The environment variables that hold the endpoints' keys."""
        return tuple(sorted({one.api_key.env for one in self.endpoints.values() if one.api_key}))

    def step_params(self) -> dict[str, Any]:
        """The graph as a step's parameters have it: all that its values depend on."""
        return {
            "reads": dict(self.reads),
            "nodes": list(self.nodes),
            "returns": self.returns,
            "endpoints": {name: endpoint_identity(one) for name, one in self.endpoints.items()},
        }

    def endpoint_access(self) -> dict[str, Any]:
        """How the endpoints are reached, which changes no value."""
        return {
            name: {"api_key": one.api_key.env if one.api_key else None, "concurrency": one.concurrency}
            for name, one in self.endpoints.items()
        }


def build_graph(
    reward: Reward,
    path: KeyPath,
    endpoints: Mapping[str, Endpoint | None],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> RewardGraph | None:
    """The graph, or None when something in it is wrong. An endpoint is None when it is itself mistaken."""
    if not _check_types(reward, path, diagnostics):
        return None
    builder = GraphBuilder(reward, path, endpoints, request, diagnostics)
    for name in reward.nodes:
        builder.build_named(name, (*path, "nodes", name))
    result = builder.build_expression(reward.returns, (*path, "returns"), "returns", "number")
    if builder.failed or result is None:
        return None
    returns = builder.return_node(result)
    graph = RewardGraph(
        reads=dict(reward.reads),
        nodes=tuple(builder.nodes),
        returns=returns,
        types=builder.types,
        ranges=builder.ranges,
        ops=tuple(builder.ops[name] for name in sorted(builder.ops)),
        used=frozenset(builder.used),
        files=builder.files,
        endpoints=builder.endpoints,
    )
    check_constant(builder, returns, (*path, "returns"), diagnostics)
    return graph


def _check_types(reward: Reward, path: KeyPath, diagnostics: Diagnostics) -> bool:
    good = True
    for name, type in reward.reads.items():
        if not is_type(type):
            from posttrain.compiler.diagnosis.key_suggestions import key_hint

            types = ("text", "integer", "number", "boolean", "messages", "any")
            help, meant = key_hint(type, types, what="types")
            message = f"`{type}` is no type"
            diagnostics.add(reward_codes.BAD_TYPE, (*path, "reads", name), message, help=help, replace=meant)
            good = False
    return good
