"""Checks whether a reward and its nodes can vary."""

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.rewards import reward_codes
from posttrain.compiler.rewards.graph_builder import GraphBuilder
from posttrain.compiler.text.yaml_tree import KeyPath


def check_constant(builder: GraphBuilder, returns: str, path: KeyPath, diagnostics: Diagnostics) -> None:
    """Report a constant reward, or else the constant nodes whose operands all vary."""
    whole = builder.ranges[returns]
    if whole.constant:
        message = f"the reward is {whole.low:g} for every completion"
        diagnostics.add(reward_codes.CONSTANT_REWARD, path, message)
        return
    for id, place in builder.node_paths.items():
        reach = builder.ranges[id]
        if not reach.constant or any(builder.ranges[node].constant for node in builder.dependencies[id]):
            continue
        value = {0.0: "false", 1.0: "true"}[reach.low] if builder.types[id] == "boolean" else f"{reach.low:g}"
        message = f"this node is {value} for every completion"
        diagnostics.add(reward_codes.CONSTANT_NODE, place, message)
