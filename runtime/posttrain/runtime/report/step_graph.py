"""The plan as a graph: what it draws for steps, or for groups of like steps when there are many."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posttrain.runtime.report.graph_layout import Edge, node_levels
from posttrain.runtime.report.run_record import StepRecord

# More boxes than this are no picture any more.
MAX_NODES = 60
_MAX_LEVEL_NODES = 16


@dataclass(frozen=True, kw_only=True)
class GraphNode:
    """One box of the picture, for one step or for several."""

    id: str
    title: str
    kind: str
    # Places of its steps in the plan.
    members: tuple[int, ...]
    states: tuple[tuple[str, int], ...]

    @property
    def single_step(self) -> int | None:
        """The place of the step, where the box stands for one."""
        return self.members[0] if len(self.members) == 1 else None


@dataclass(frozen=True, kw_only=True)
class StepGraph:
    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]
    # Edges from a gate to what it holds back.
    gate_edges: frozenset[Edge]


def step_edges(steps: Sequence[StepRecord]) -> tuple[list[Edge], frozenset[Edge]]:
    """What each step reads, and the gates that hold it back where its inputs do not say so already."""
    place = {record.id: index for index, record in enumerate(steps)}
    behind: list[int] = []  # for each step, as bits, all steps that it comes after
    edges: list[Edge] = []
    barriers: set[Edge] = set()
    for index, record in enumerate(steps):
        inputs = [given.step for given in record.step.inputs.values() if place.get(given.step, index) < index]
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
    """The graph to draw: of steps, of groups when that is too much, or none."""
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
    """Steps of one kind on one level as one box; none when even these are too many."""
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
    several = f"{first.step.kind or 'step'} \u00d7 {len(members):,}"
    return GraphNode(
        id=name,
        title=first.id if len(members) == 1 else several,
        kind=first.step.kind,
        members=tuple(index for index, _ in members),
        states=tuple(states.most_common()),
    )
