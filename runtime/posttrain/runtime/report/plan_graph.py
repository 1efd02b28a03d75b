"""Draws the plan: a box for each step, a hexagon for a gate, and lines for the data flow."""

from collections.abc import Sequence
from itertools import pairwise

from posttrain.runtime.report.graph_layout import compute_layout, node_levels
from posttrain.runtime.report.markup import Markup, scroll_frame, tag
from posttrain.runtime.report.number_format import format_short_duration, plural
from posttrain.runtime.report.run_record import RunRecord, StepRecord
from posttrain.runtime.report.step_graph import GraphNode, StepGraph, build_step_graph, step_edges
from posttrain.runtime.report.step_states import (
    count_states,
    icon_path,
    known_state,
    state_badge,
    state_label,
)

_NODE_HEIGHT = 46.0
_MIN_WIDTH, _MAX_WIDTH = 96.0, 210.0
# The width that a box takes of a narrow page, where it is alone in its level.
_CHAIN_WIDTH = 300.0
# Upper bounds of the character widths of a name and of the detail below it.
_NAME_LETTER, _DETAIL_LETTER = 8.1, 6.7
_LEFT, _RIGHT, _POINT = 30.0, 10.0, 12.0
_MARGIN = 4.0
# The room between boxes of a level, that of a line between them, and between levels from the top down.
_NODE_GAP, _LANE, _DOWN_GAP = 18.0, 16.0, 26.0
# On a narrow page the graph shrinks to this share of its size; below that it scrolls.
_MIN_SCALE = 0.78
# The minimum rows of squares in a level of the map, and the columns past which rows are added.
_ROWS, _COLUMNS = 10, 60


def plan_section(run: RunRecord) -> Markup:
    """The plan as a graph, plus a map of all steps when there are too many for the graph."""
    if not run.steps:
        return tag("p", "The steps of this run are not known.", class_="card soft")
    flow = build_step_graph(run.steps)
    parts: list[Markup] = []
    if flow is not None:
        drawings = [_draw_graph(flow, run.steps, down) for down in (False, True)]
        parts.append(scroll_frame("The plan", drawings))
    if flow is None or any(box.single_step is None for box in flow.nodes):
        parts.append(_step_map(run.steps))
    return tag("div", parts, _legend(run.steps), class_="card")


def _legend(steps: Sequence[StepRecord]) -> Markup:
    found = count_states(record.state for record in steps)
    gated = any(record.step.gates for record in steps)
    return tag(
        "p",
        [state_badge(state, f"{count:,} {state_label(state)}") for state, count in found],
        tag("span", "dashed: behind a gate", class_="soft") if gated else None,
        class_="legend",
    )


def _draw_graph(flow: StepGraph, steps: Sequence[StepRecord], down: bool) -> Markup:
    """The graph from left to right, or from the top down for a narrow page."""
    wide = _width(flow, steps, _CHAIN_WIDTH if down and _is_chain(flow) else _MAX_WIDTH)
    along, across = (_NODE_HEIGHT, wide) if down else (wide, _NODE_HEIGHT)
    layout = compute_layout([box.id for box in flow.nodes], flow.edges, across + _NODE_GAP, _LANE)
    gap = _DOWN_GAP if down else 40.0 if len(flow.edges) < 40 else 64.0
    pitch = along + gap
    length, breadth = layout.levels * pitch - gap + 2 * _MARGIN, layout.height + 2 * _MARGIN
    width, height = (breadth, length) if down else (length, breadth)
    lines = [
        _draw_edge(layout.edges[e], along, pitch, down, e in flow.gate_edges)
        for e in flow.edges
        if e in layout.edges
    ]
    boxes: list[Markup] = []
    for box in flow.nodes:
        start, beside = _MARGIN + layout.level[box.id] * pitch, _MARGIN + layout.y[box.id] - across / 2
        boxes.append(_draw_node(box, (beside, start) if down else (start, beside), wide, steps))
    label = f"The plan: {plural(len(steps), 'step')} in {plural(layout.levels, 'level')}, all listed below."
    return tag(
        "svg",
        *lines,
        *boxes,
        class_="plan down" if down else "plan along",
        role="group",
        aria_label=label,
        width=round(width),
        height=round(height),
        style=f"min-width:{_MIN_SCALE * width:.0f}px",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
    )


def _is_chain(flow: StepGraph) -> bool:
    """Whether no two boxes are side by side."""
    levels = node_levels([box.id for box in flow.nodes], flow.edges)
    return len(set(levels.values())) == len(levels)


def _width(flow: StepGraph, steps: Sequence[StepRecord], most: float) -> float:
    """The width of all boxes: that of the longest text, within limits."""
    texts = [max(len(b.title) * _NAME_LETTER, len(_detail(b, steps)) * _DETAIL_LETTER) for b in flow.nodes]
    return min(most, max(_MIN_WIDTH, max(texts) + _LEFT + _RIGHT))


def _draw_edge(
    points: Sequence[tuple[int, float]], extent: float, pitch: float, down: bool, barrier: bool
) -> Markup:
    """A curve from the end of one box, through its lanes, to the beginning of another."""
    path: list[str] = []
    placed = [(level, _MARGIN + across) for level, across in points]
    for (here, across), (there, to) in pairwise(placed):
        start = _MARGIN + here * pitch + extent
        end = _MARGIN + there * pitch
        bend = (end - start) * 0.5
        # A later part goes straight through the lane of its level first.
        path.append(f"{'L' if path else 'M'}{_point(start, across, down)}")
        turns = (_point(start + bend, across, down), _point(end - bend, to, down), _point(end, to, down))
        path.append(f"C{' '.join(turns)}")
    return tag("path", d="".join(path), class_="edge barrier" if barrier else "edge")


def _point(along: float, across: float, down: bool) -> str:
    return f"{across:.1f} {along:.1f}" if down else f"{along:.1f} {across:.1f}"


def _draw_node(
    box: GraphNode, place: tuple[float, float], wide: float, steps: Sequence[StepRecord]
) -> Markup:
    x, y = place
    state = _group_state(box) if box.single_step is None else steps[box.single_step].display_state
    title, detail = box.title, _detail(box, steps)
    room = wide - _LEFT - _RIGHT + 1
    drawn = tag(
        "g",
        tag("title", f"{title}: {', '.join(f'{n:,} {state_label(s)}' for s, n in box.states)}"),
        _outline(box, wide),
        tag("g", icon_path(state), transform=f"translate({_LEFT - 22:.0f} {_NODE_HEIGHT / 2 - 8:.0f})"),
        tag(
            "text", ellipsize(title, int(room / _NAME_LETTER)), x=_LEFT, y=_NODE_HEIGHT / 2 - 3, class_="name"
        ),
        tag(
            "text",
            ellipsize(detail, int(room / _DETAIL_LETTER)),
            x=_LEFT,
            y=_NODE_HEIGHT / 2 + 13,
            class_="detail",
        ),
        class_=f"box s-{known_state(state)}",
        transform=f"translate({x:.1f} {y:.1f})",
    )
    return drawn if box.single_step is None else tag("a", drawn, href=f"#step-{box.single_step}")


def _outline(box: GraphNode, wide: float) -> Markup:
    """A rounded box for a step, a hexagon for a gate, a stack of two boxes for a group."""
    if box.kind == "gate":
        right = wide - _POINT
        points = (
            f"0,{_NODE_HEIGHT / 2} {_POINT},0 {right},0 {wide},{_NODE_HEIGHT / 2} {right},{_NODE_HEIGHT}"
            f" {_POINT},{_NODE_HEIGHT}"
        )
        return tag("polygon", points=points, class_="shape")
    front = tag("rect", width=wide, height=_NODE_HEIGHT, rx=9, class_="shape")
    if box.single_step is None:
        behind = tag("rect", x=4, y=-4, width=wide - 2, height=_NODE_HEIGHT, rx=9, class_="shape")
        return Markup(behind + front)
    return front


_STATE_PRIORITY = (
    *("failed", "interrupted", "running", "queued", "held", "blocked", "waiting", "unknown"),
    *("done", "cached", "skipped"),
)


def _group_state(box: GraphNode) -> str:
    """The state to show for a group: the one that needs attention most."""
    found = {known_state(state) for state, _ in box.states}
    return next(state for state in _STATE_PRIORITY if state in found)


def _detail(box: GraphNode, steps: Sequence[StepRecord]) -> str:
    if box.single_step is None:
        rest = [(state, n) for state, n in box.states if state != "done"]
        return ", ".join(f"{n:,} {known_state(state)}" for state, n in rest) or "all done"
    record = steps[box.single_step]
    verdict = record.facts.get("verdict") if box.kind == "gate" else None
    status = (
        str(verdict)
        if verdict
        else format_short_duration(record.seconds)
        if record.state == "done"
        else known_state(record.state)
    )
    return f"{box.kind} \u00b7 {status}" if box.kind else status


def ellipsize(words: str, room: int) -> str:
    """A text shortened in the middle, where names differ least."""
    if len(words) <= room:
        return words
    keep = max(2, room - 1)
    return f"{words[: keep - keep // 2]}\u2026{words[len(words) - keep // 2 :]}"


def _map_level(cells: Sequence[Markup]) -> Markup:
    rows = min(len(cells), max(_ROWS, -(-len(cells) // _COLUMNS)))
    return tag("div", cells, class_="level", style=f"grid-template-rows:repeat({rows},13px)")


def _step_map(steps: Sequence[StepRecord]) -> Markup:
    """A small square for each step, level by level."""
    edges, _ = step_edges(steps)
    level = node_levels([record.id for record in steps], edges)
    columns: dict[int, list[Markup]] = {}
    for index, record in enumerate(steps):
        state = known_state(record.display_state)
        label = f"{record.id}: {state_label(state)}"
        cell = tag("a", class_=f"cell s-{state}", href=f"#step-{index}", title=label, aria_label=label)
        columns.setdefault(level[record.id], []).append(cell)
    blocks = [_map_level(cells) for _, cells in sorted(columns.items())]
    words = f"All {plural(len(steps), 'step')}, level by level from left to right."
    return Markup(tag("p", words, class_="soft") + tag("div", blocks, class_="map"))
