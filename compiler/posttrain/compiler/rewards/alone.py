"""Compiles one reward of a file by itself, for trying it out: no stage need use it, and what is wrong
elsewhere in the file is not looked at. A file that others extend will do."""

from collections.abc import Mapping

from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.reading.expand import expand
from posttrain.compiler.reading.interpolate import interpolate
from posttrain.compiler.reading.matrix import legs
from posttrain.compiler.reading.parse import parse
from posttrain.compiler.reading.validate import validate
from posttrain.compiler.rewards.graph import Graph, build
from posttrain.compiler.text.source import Request
from posttrain.compiler.text.tree import Entry, Mapped
from posttrain.spec.diagnostic import Diagnostic, in_file_order
from posttrain.spec.materials import Endpoint, Reward
from posttrain.spec.record import record


@record(kw_only=True)
class Alone:
    """The graph when there is no error; the names of all rewards; what was found, in file order."""

    graph: Graph | None
    names: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


def compile_reward(request: Request, name: str) -> Alone:
    findings = Findings()
    names, graph = _compiled(request, name, findings)
    found = tuple(in_file_order(findings.found))
    return Alone(graph=None if findings.failed else graph, names=names, diagnostics=found)


def _compiled(request: Request, name: str, findings: Findings) -> tuple[tuple[str, ...], Graph | None]:
    tree = parse(request.source, findings)
    if tree is None:
        return (), None
    findings.attach(tree)
    whole = expand(tree, request, findings)
    # Of a matrix, the first combination: it is enough to try a reward out.
    leg = legs(whole, findings)[0]
    about = {name: entry for name, entry in whole.entries.items() if name in ("vars", "rewards", "endpoints")}
    whole = interpolate(Mapped(about, whole.span), leg, set(), findings)
    findings.attach(whole)
    rewards = _section(whole, "rewards")
    if findings.failed or name not in rewards:
        return tuple(rewards), None
    reward = validate(Reward, rewards[name].node, ("rewards", name), findings)
    quiet = Findings()  # an endpoint that is mistaken matters only to the whole recipe
    quiet.attach(whole)
    endpoints = {
        of: validate(Endpoint, entry.node, ("endpoints", of), quiet)
        for of, entry in _section(whole, "endpoints").items()
    }
    if reward is None:
        return tuple(rewards), None
    return tuple(rewards), build(reward, ("rewards", name), endpoints, request, findings)


def _section(root: Mapped, name: str) -> Mapping[str, Entry]:
    entry = root.entries.get(name)
    return entry.node.entries if entry is not None and isinstance(entry.node, Mapped) else {}
