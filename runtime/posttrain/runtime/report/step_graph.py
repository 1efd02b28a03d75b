"""Builds the graph of the plan: a node per step, or per group of similar steps when there are many."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posttrain.runtime.report.graph_layout import Edge, node_levels
from posttrain.runtime.report.run_record import StepRecord

# A graph with more nodes than this is not readable.
MAX_NODES = 60
_MAX_LEVEL_NODES = 16


@dataclass(frozen=True, kw_only=True)
class GraphNode:
    """A node of the graph, for one step or for a group."""

    id: str
    title: str
    kind: str
    # Indices of its steps in the plan.
    members: tuple[int, ...]
    states: tuple[tuple[str, int], ...]

    @property
    def single_step(self) -> int | None:
        """The index of the step, when the node represents one step."""
        return self.members[0] if len(self.members) == 1 else None


@dataclass(frozen=True, kw_only=True)
class StepGraph:
    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]
    # Edges from a gate to the steps behind it.
    gate_edges: frozenset[Edge]


def step_edges(steps: Sequence[StepRecord]) -> tuple[list[Edge], frozenset[Edge]]:
    """The edges from inputs, and the edges from gates that the inputs do not imply."""
    place = {record.id: index for index, record in enumerate(steps)}
    behind: list[int] = []  # for each step, its ancestors as a bit set
    edges: list[Edge] = []
    barriers: set[Edge] = set()
    for index, record in enumerate(steps):
        sources = record.step.inputs.values()
        inputs = [source.step for source in sources if place.get(source.step, index) < index]
        seen = 0
        for id in dict.fromkeys(inputs):
            seen |= behind[place[id]] | 1 << place[id]
            edges.append((id, record.id))
        for gate in record.step.gates:
            if place.get(gate, index) < index and not seen >> place[gate] & 1:
                edges.append((gate, record.id))
                barriers.add((gate, record.id))
                seen |= behind[place[gate]] | 1 << place[gate]
        behind.append(seen)
    return edges, frozenset(barriers)


def build_step_graph(steps: Sequence[StepRecord]) -> StepGraph | None:
    """The graph of steps, or of groups for a large plan; None when even the groups are too many."""
    edges, barriers = step_edges(steps)
    level = node_levels([record.id for record in steps], edges)
    widest = max(Counter(level.values()).values(), default=0)
    if len(steps) <= MAX_NODES and widest <= _MAX_LEVEL_NODES:
        boxes = tuple(_node(record.id, [(index, record)]) for index, record in enumerate(steps))
        return StepGraph(nodes=boxes, edges=tuple(edges), gate_edges=barriers)
    return _group_by_kind(steps, edges, barriers, level)


def _group_by_kind(
    steps: Sequence[StepRecord], edges: Sequence[Edge], barriers: frozenset[Edge], level: Mapping[str, int]
) -> StepGraph | None:
    """One node for the steps of a kind on a level; None when there are still too many nodes."""
    groups: dict[str, list[int]] = {}
    group_of: dict[str, str] = {}
    for index, record in enumerate(steps):
        name = f"{level[record.id]} {record.step.kind}"
        groups.setdefault(name, []).append(index)
        group_of[record.id] = name
    if len(groups) > MAX_NODES:
        return None
    joined = dict.fromkeys((group_of[a], group_of[b]) for a, b in edges)
    ordered = sorted(groups, key=lambda name: int(name.split(" ")[0]))
    return StepGraph(
        nodes=tuple(_node(name, [(i, steps[i]) for i in groups[name]]) for name in ordered),
        edges=tuple(joined),
        gate_edges=frozenset((group_of[a], group_of[b]) for a, b in barriers),
    )


def _node(name: str, members: Sequence[tuple[int, StepRecord]]) -> GraphNode:
    states = Counter(record.state for _, record in members)
    first = members[0][1]
    group_title = f"{first.step.kind or 'step'} \u00d7 {len(members):,}"
    return GraphNode(
        id=name,
        title=first.id if len(members) == 1 else group_title,
        kind=first.step.kind,
        members=tuple(index for index, _ in members),
        states=tuple(states.most_common()),
    )
