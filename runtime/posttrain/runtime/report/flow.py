"""The plan as a graph: what it draws for steps, or for groups of like steps when there are many."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posttrain.runtime.report.layout import Edge, levels_of
from posttrain.runtime.report.record import StepRecord

# More boxes than this are no picture any more.
MOST = 60
_TALLEST = 16


@dataclass(frozen=True, kw_only=True)
class Box:
    """One box of the picture, for one step or for several."""

    id: str
    title: str
    kind: str
    # Places of its steps in the plan.
    members: tuple[int, ...]
    states: tuple[tuple[str, int], ...]

    @property
    def alone(self) -> int | None:
        """The place of the step, where the box stands for one."""
        return self.members[0] if len(self.members) == 1 else None


@dataclass(frozen=True, kw_only=True)
class Flow:
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    # Edges from a gate to what it holds back.
    barriers: frozenset[Edge]


def edges_of(steps: Sequence[StepRecord]) -> tuple[list[Edge], frozenset[Edge]]:
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


def flow_of(steps: Sequence[StepRecord]) -> Flow | None:
    """The graph to draw: of steps, of groups when that is too much, or none."""
    edges, barriers = edges_of(steps)
    level = levels_of([record.id for record in steps], edges)
    widest = max(Counter(level.values()).values(), default=0)
    if len(steps) <= MOST and widest <= _TALLEST:
        boxes = tuple(_box(record.id, [(index, record)]) for index, record in enumerate(steps))
        return Flow(boxes=boxes, edges=tuple(edges), barriers=barriers)
    return _grouped(steps, edges, barriers, level)


def _grouped(
    steps: Sequence[StepRecord], edges: Sequence[Edge], barriers: frozenset[Edge], level: Mapping[str, int]
) -> Flow | None:
    """Steps of one kind on one level as one box; none when even these are too many."""
    groups: dict[str, list[int]] = {}
    group_of: dict[str, str] = {}
    for index, record in enumerate(steps):
        name = f"{level[record.id]} {record.step.kind}"
        groups.setdefault(name, []).append(index)
        group_of[record.id] = name
    if len(groups) > MOST:
        return None
    joined = dict.fromkeys((group_of[a], group_of[b]) for a, b in edges)
    ordered = sorted(groups, key=lambda name: int(name.split(" ")[0]))
    return Flow(
        boxes=tuple(_box(name, [(i, steps[i]) for i in groups[name]]) for name in ordered),
        edges=tuple(joined),
        barriers=frozenset((group_of[a], group_of[b]) for a, b in barriers),
    )


def _box(name: str, members: Sequence[tuple[int, StepRecord]]) -> Box:
    states = Counter(record.state for _, record in members)
    first = members[0][1]
    several = f"{first.step.kind or 'step'} \u00d7 {len(members):,}"
    return Box(
        id=name,
        title=first.id if len(members) == 1 else several,
        kind=first.step.kind,
        members=tuple(index for index, _ in members),
        states=tuple(states.most_common()),
    )
