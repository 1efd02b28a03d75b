"""Builds a reward graph: resolves names, checks types, derives ranges and flattens the expressions."""

from collections.abc import Mapping
from typing import Any

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.endpoint_params import endpoint_identity
from posttrain.compiler.rewards import reward_codes
from posttrain.compiler.rewards.constant_rewards import check_constant
from posttrain.compiler.rewards.graph_builder import GraphBuilder
from posttrain.compiler.rewards.operand_values import Value
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.column_types import Interval, Type, is_type
from posttrain.spec.declarations import Endpoint, Reward
from posttrain.spec.extension import RewardOp
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record
from posttrain.spec.step_params.generation_params import EndpointAccess
from posttrain.spec.step_params.reward_params import RewardGraphParams, RewardNode


@record(kw_only=True)
class RewardGraph:
    """A checked reward graph. `nodes` are in dependency order."""

    reads: Mapping[str, Type]
    nodes: tuple[Mapping[str, Any], ...]
    returns: str
    types: Mapping[str, Type]
    # What each declared name stands for: a node, or the column or the literal that it is another name of.
    values: Mapping[str, Value]
    ranges: Mapping[str, Interval]
    ops: tuple[RewardOp, ...]
    # The named nodes that another node or `returns` uses.
    used: frozenset[str]
    # The user files by role, and the endpoints by name, that the nodes need.
    files: Mapping[str, UserFile]
    endpoints: Mapping[str, Endpoint]

    @property
    def range(self) -> Interval:
        return self.ranges[self.returns]

    @property
    def secrets(self) -> tuple[str, ...]:
        """The environment variables with the API keys of the endpoints."""
        return tuple(sorted({one.api_key.env for one in self.endpoints.values() if one.api_key}))

    def step_params(self) -> RewardGraphParams:
        """The graph as step parameters: everything that its values depend on."""
        return RewardGraphParams(
            reads=self.reads,
            nodes=tuple(RewardNode(**node) for node in self.nodes),
            returns=self.returns,
            endpoints={name: endpoint_identity(one) for name, one in self.endpoints.items()},
        )

    def endpoint_access(self) -> dict[str, EndpointAccess]:
        """Return the connection settings of the endpoints, which do not affect the values."""
        return {
            name: EndpointAccess(
                api_key=one.api_key.env if one.api_key else None, concurrency=one.concurrency
            )
            for name, one in self.endpoints.items()
        }


def build_graph(
    reward: Reward,
    path: KeyPath,
    endpoints: Mapping[str, Endpoint | None],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> RewardGraph | None:
    """Return the graph, or None if it has errors. An endpoint that is None has errors of its own."""
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
        values=builder.named_values,
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
            message = f"`{type}` is not a column type"
            diagnostics.add(reward_codes.BAD_TYPE, (*path, "reads", name), message, help=help, replace=meant)
            good = False
    return good
