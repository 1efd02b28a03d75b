"""Finds the models that the nodes of a reward score with, as written. The order of the stages depends on
them, so they are needed before the graph is built. The graph builder reports invalid nodes."""

from collections.abc import Iterator
from typing import Any, cast

from posttrain.compiler.rewards.op_arguments import written_operands
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.declarations import Reward
from posttrain.spec.extension import Catalog, Operand, RewardOp


def referenced_models(reward: Reward, path: KeyPath, catalog: Catalog) -> Iterator[tuple[KeyPath, str]]:
    """Yield the path and the text of each model name."""
    for name, node in reward.nodes.items():
        yield from _models_in_node(node, (*path, "nodes", name), catalog)
    yield from _models_in_node(reward.returns, (*path, "returns"), catalog)


def _models_in_node(node: Any, path: KeyPath, catalog: Catalog) -> Iterator[tuple[KeyPath, str]]:
    if not isinstance(node, dict) or len(cast(dict[str, Any], node)) != 1:
        return
    name, body = next(iter(cast(dict[str, Any], node).items()))
    op = catalog.find("reward", name) if name != "text" else None
    if not isinstance(op, RewardOp):
        return
    given, named = written_operands(op, body)
    for key, value in given.items():
        where = (*path, name, key) if named else (*path, name)
        if key in op.models and isinstance(value, str):
            yield where, value
        for inner, place in _operand_nodes(value, op.operands[key], where) if key in op.operands else ():
            yield from _models_in_node(inner, place, catalog)


def _operand_nodes(value: Any, operand: Operand, path: KeyPath) -> Iterator[tuple[Any, KeyPath]]:
    """Yield the nodes of an operand: one node, a list of nodes or of rows, or a mapping of nodes."""
    if operand.named and isinstance(value, dict):
        yield from _items(value, path)
    elif isinstance(value, list):
        for index, item in enumerate(cast(list[Any], value)):
            if operand.fields and isinstance(item, dict):
                yield from _items(item, (*path, index))
            else:
                yield item, (*path, index)
    else:
        yield value, path


def _items(values: Any, path: KeyPath) -> Iterator[tuple[Any, KeyPath]]:
    for name, value in cast(dict[str, Any], values).items():
        yield value, (*path, name)
