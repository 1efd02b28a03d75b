"""Lays out a graph from left to right: levels by dependency, lanes for long edges, few crossings.

An edge that spans several levels passes through a lane in each level between them. All edges of a
node share its lanes, so a dataset that ten stages read is one line with ten branches.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Edge = tuple[str, str]
# A slot of a level: a node (its name), or a lane (its source and its level).
Slot = str | tuple[str, int]
_SWEEPS = 12


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The levels and heights of all nodes; the points of each edge, including its ends."""

    level: Mapping[str, int]
    y: Mapping[str, float]
    edges: Mapping[Edge, tuple[tuple[int, float], ...]]
    levels: int
    height: float


def compute_layout(nodes: Sequence[str], edges: Iterable[Edge], node_room: float, lane_room: float) -> Layout:
    """Place the nodes, which must be in topological order: edges that point backward are dropped."""
    forward = _forward_edges(nodes, edges)
    level = node_levels(nodes, forward)
    spots = _build_columns(nodes, forward, level)
    links = _neighbors(forward, level)
    columns = _order_columns(spots, links)
    y = _heights(columns, links, node_room, lane_room)
    top = min(y.values(), default=0.0)
    height = max(y.values(), default=0.0) - top + node_room
    y = {spot: value - top + node_room / 2 for spot, value in y.items()}
    return Layout(
        level=level,
        y={node: y[node] for node in nodes},
        edges={edge: _route(edge, level, y) for edge in forward},
        levels=len(columns),
        height=height,
    )


def _forward_edges(nodes: Sequence[str], edges: Iterable[Edge]) -> list[Edge]:
    place = {node: index for index, node in enumerate(nodes)}
    return [(a, b) for a, b in dict.fromkeys(edges) if a in place and b in place and place[a] < place[b]]


def node_levels(nodes: Sequence[str], edges: Iterable[Edge]) -> dict[str, int]:
    """The length of the longest path to each node; a node without inputs is just before its first use."""
    before: dict[str, list[str]] = {node: [] for node in nodes}
    after: dict[str, list[str]] = {node: [] for node in nodes}
    for a, b in edges:
        before[b].append(a)
        after[a].append(b)
    level: dict[str, int] = {}
    for node in nodes:
        level[node] = 1 + max((level[a] for a in before[node]), default=-1)
    for node in nodes:
        if not before[node] and after[node]:
            level[node] = min(level[b] for b in after[node]) - 1
    return level


def _build_columns(nodes: Sequence[str], edges: Iterable[Edge], level: Mapping[str, int]) -> list[list[Slot]]:
    columns: list[list[Slot]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for node in nodes:
        columns[level[node]].append(node)
    furthest: dict[str, int] = {}
    for a, b in edges:
        furthest[a] = max(furthest.get(a, 0), level[b])
    for node, last in furthest.items():
        for between in range(level[node] + 1, last):
            columns[between].append((node, between))
    return columns


def _edge_slots(edge: Edge, level: Mapping[str, int]) -> list[Slot]:
    a, b = edge
    return [a, *((a, between) for between in range(level[a] + 1, level[b])), b]


def _neighbors(edges: Iterable[Edge], level: Mapping[str, int]) -> dict[Slot, list[Slot]]:
    """The slots connected to each slot, on both sides."""
    found: dict[Slot, dict[Slot, None]] = {}
    for edge in edges:
        chain = _edge_slots(edge, level)
        for one, other in pairwise(chain):
            found.setdefault(one, {})[other] = None
            found.setdefault(other, {})[one] = None
    return {spot: list(joined) for spot, joined in found.items()}


def _order_columns(columns: list[list[Slot]], links: Mapping[Slot, list[Slot]]) -> list[list[Slot]]:
    """Sort each level by the mean position of its neighbors, in alternating sweeps."""
    place = {spot: index for column in columns for index, spot in enumerate(column)}
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 == 0 else columns[::-1]:
            targets = {spot: _mean([place[o] for o in links.get(spot, ())], place[spot]) for spot in column}
            column.sort(key=targets.__getitem__)
            place.update({spot: index for index, spot in enumerate(column)})
    return columns


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _heights(
    columns: Sequence[Sequence[Slot]], links: Mapping[Slot, list[Slot]], node_room: float, lane_room: float
) -> dict[Slot, float]:
    """Heights close to those of the neighbors, with the space that each slot needs."""
    y: dict[Slot, float] = {}
    for column in columns:
        y.update(_stack_column(column, dict.fromkeys(column, 0.0), node_room, lane_room))
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 == 0 else columns[::-1]:
            targets = {spot: _mean([y[o] for o in links.get(spot, ())], y[spot]) for spot in column}
            y.update(_stack_column(column, targets, node_room, lane_room))
    return y


def _stack_column(
    column: Sequence[Slot], targets: Mapping[Slot, float], node_room: float, lane_room: float
) -> dict[Slot, float]:
    """The positions closest to the targets that keep the order and the distances.

    Slots that would overlap form a block, placed at the mean of their targets.
    """
    offset, offsets = 0.0, list[float]()
    for index, spot in enumerate(column):
        room = node_room if isinstance(spot, str) else lane_room
        offset += room / 2 if index else 0.0
        offsets.append(offset)
        offset += room / 2
    blocks: list[tuple[float, int]] = []  # the mean of target minus offset, and the number of slots
    for spot, off in zip(column, offsets, strict=True):
        mean, count = targets[spot] - off, 1
        while blocks and blocks[-1][0] > mean:
            other, many = blocks.pop()
            mean, count = (mean * count + other * many) / (count + many), count + many
        blocks.append((mean, count))
    starts = [mean for mean, count in blocks for _ in range(count)]
    return {spot: start + off for spot, start, off in zip(column, starts, offsets, strict=True)}


def _route(edge: Edge, level: Mapping[str, int], y: Mapping[Slot, float]) -> tuple[tuple[int, float], ...]:
    start = level[edge[0]]
    chain = _edge_slots(edge, level)
    return tuple((start + index, y[spot]) for index, spot in enumerate(chain))
