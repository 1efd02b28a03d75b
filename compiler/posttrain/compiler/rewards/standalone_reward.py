"""Compiles a single reward of a file, to try it out. No stage needs to use the reward, errors elsewhere in
the file are ignored, and the file need not be a complete recipe."""

from collections.abc import Mapping

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.parsing.expand import expand
from posttrain.compiler.parsing.interpolate import interpolate
from posttrain.compiler.parsing.matrix import expand_matrix
from posttrain.compiler.parsing.parse import parse
from posttrain.compiler.parsing.validation_diagnostics import validate
from posttrain.compiler.rewards.graph import RewardGraph, build_graph
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import Entry, MappingNode
from posttrain.spec.declarations import Endpoint, Reward
from posttrain.spec.diagnostic import Diagnostic, sort_by_location
from posttrain.spec.record import record


@record(kw_only=True)
class CompiledReward:
    """The graph if there is no error, the names of all rewards, and the diagnostics in file order."""

    graph: RewardGraph | None
    names: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


def compile_reward(request: CompileRequest, name: str) -> CompiledReward:
    diagnostics = Diagnostics()
    names, graph = _compile(request, name, diagnostics)
    found = tuple(sort_by_location(diagnostics.collected))
    return CompiledReward(graph=None if diagnostics.has_errors else graph, names=names, diagnostics=found)


def _compile(
    request: CompileRequest, name: str, diagnostics: Diagnostics
) -> tuple[tuple[str, ...], RewardGraph | None]:
    tree = parse(request.source, diagnostics)
    if tree is None:
        return (), None
    diagnostics.set_root(tree)
    whole = expand(tree, request, diagnostics)
    # The first combination of a matrix is enough to try out a reward.
    leg = expand_matrix(whole, diagnostics)[0]
    about = {name: entry for name, entry in whole.entries.items() if name in ("vars", "rewards", "endpoints")}
    whole = interpolate(MappingNode(about, whole.span), leg, set(), diagnostics)
    diagnostics.set_root(whole)
    rewards = _section(whole, "rewards")
    if diagnostics.has_errors or name not in rewards:
        return tuple(rewards), None
    reward = validate(Reward, rewards[name].node, ("rewards", name), diagnostics)
    quiet = Diagnostics()  # errors of endpoints matter only to the whole recipe
    quiet.set_root(whole)
    endpoints = {
        of: validate(Endpoint, entry.node, ("endpoints", of), quiet)
        for of, entry in _section(whole, "endpoints").items()
    }
    if reward is None:
        return tuple(rewards), None
    return tuple(rewards), build_graph(reward, ("rewards", name), endpoints, request, diagnostics)


def _section(root: MappingNode, name: str) -> Mapping[str, Entry]:
    entry = root.entries.get(name)
    return entry.node.entries if entry is not None and isinstance(entry.node, MappingNode) else {}
