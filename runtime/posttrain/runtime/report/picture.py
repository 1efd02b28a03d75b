"""Draws the plan: a box for each step, a pointed one for a gate, lines for what goes where."""

from collections.abc import Sequence
from itertools import pairwise

from posttrain.runtime.report.figures import brief, plural
from posttrain.runtime.report.flow import Box, Flow, edges_of, flow_of
from posttrain.runtime.report.layout import Layout, lay_out, levels_of
from posttrain.runtime.report.markup import Markup, scrolling, tag
from posttrain.runtime.report.record import RunRecord, StepRecord
from posttrain.runtime.report.states import counts, known, label, pill, strokes

_TALL = 46.0
_NARROW, _WIDE = 96.0, 210.0
# Widths of letters of a name and of what stands below it, on the safe side.
_NAME, _DETAIL = 8.1, 6.7
_LEFT, _RIGHT, _POINT = 30.0, 10.0, 12.0
_MARGIN = 4.0
# On a narrow page the picture shrinks to this share of its size; then it scrolls.
_SMALLEST = 0.78
# The squares of a level stand so many below each other, or more when there are many.
_ROWS, _COLUMNS = 10, 60


def plan_section(run: RunRecord) -> Markup:
    """The plan as a picture, and as a map of all steps when there are too many to draw."""
    if not run.steps:
        return tag("p", "Nothing is known of the steps of this run.", class_="card soft")
    flow = flow_of(run.steps)
    parts: list[Markup] = []
    if flow is not None:
        parts.append(scrolling("The plan", _drawing(flow, run.steps)))
    if flow is None or any(box.alone is None for box in flow.boxes):
        parts.append(_map(run.steps))
    return tag("div", parts, _legend(run.steps), class_="card")


def _legend(steps: Sequence[StepRecord]) -> Markup:
    found = counts(record.state for record in steps)
    gated = any(record.step.gates for record in steps)
    return tag(
        "p",
        [pill(state, f"{count:,} {label(state)}") for state, count in found],
        tag("span", "dashed: behind a gate", class_="soft") if gated else None,
        class_="legend",
    )


def _drawing(flow: Flow, steps: Sequence[StepRecord]) -> Markup:
    wide = _width(flow, steps)
    layout = lay_out([box.id for box in flow.boxes], flow.edges, _TALL + 18, 16.0)
    gap = 40.0 if len(flow.edges) < 40 else 64.0
    pitch = wide + gap
    width, height = layout.levels * pitch - gap + 2 * _MARGIN, layout.height + 2 * _MARGIN
    lines = [_line(layout.edges[e], wide, pitch, e in flow.barriers) for e in flow.edges if e in layout.edges]
    boxes = [_box(box, layout, wide, pitch, steps) for box in flow.boxes]
    said = f"The plan: {plural(len(steps), 'step')} in {plural(layout.levels, 'level')}, all listed below."
    return tag(
        "svg",
        *lines,
        *boxes,
        class_="plan",
        role="group",
        aria_label=said,
        width=round(width),
        height=round(height),
        style=f"min-width:{_SMALLEST * width:.0f}px",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
    )


def _width(flow: Flow, steps: Sequence[StepRecord]) -> float:
    """Boxes are as wide as the longest text needs, up to a point."""
    texts = [max(len(b.title) * _NAME, len(_detail(b, steps)) * _DETAIL) for b in flow.boxes]
    return min(_WIDE, max(_NARROW, max(texts) + _LEFT + _RIGHT))


def _line(points: Sequence[tuple[int, float]], wide: float, pitch: float, barrier: bool) -> Markup:
    """A curve from the right of one box, through its lanes, to the left of another."""
    path: list[str] = []
    placed = [(level, _MARGIN + y) for level, y in points]
    for (here, y), (there, to) in pairwise(placed):
        start = _MARGIN + here * pitch + wide
        end = _MARGIN + there * pitch
        bend = (end - start) * 0.5
        if not path:
            path.append(f"M{start:.1f} {y:.1f}")
        else:  # straight through the lane of this level
            path.append(f"H{start:.1f}")
        path.append(f"C{start + bend:.1f} {y:.1f} {end - bend:.1f} {to:.1f} {end:.1f} {to:.1f}")
    return tag("path", d="".join(path), class_="edge barrier" if barrier else "edge")


def _box(box: Box, layout: Layout, wide: float, pitch: float, steps: Sequence[StepRecord]) -> Markup:
    x = _MARGIN + layout.level[box.id] * pitch
    y = _MARGIN + layout.y[box.id] - _TALL / 2
    state = _state(box) if box.alone is None else steps[box.alone].sign
    title, detail = box.title, _detail(box, steps)
    room = wide - _LEFT - _RIGHT + 1
    drawn = tag(
        "g",
        tag("title", f"{title}: {', '.join(f'{n:,} {label(s)}' for s, n in box.states)}"),
        _outline(box, wide),
        tag("g", strokes(state), transform=f"translate({_LEFT - 22:.0f} {_TALL / 2 - 8:.0f})"),
        tag("text", shortened(title, int(room / _NAME)), x=_LEFT, y=_TALL / 2 - 3, class_="name"),
        tag("text", shortened(detail, int(room / _DETAIL)), x=_LEFT, y=_TALL / 2 + 13, class_="detail"),
        class_=f"box s-{known(state)}",
        transform=f"translate({x:.1f} {y:.1f})",
    )
    return drawn if box.alone is None else tag("a", drawn, href=f"#step-{box.alone}")


def _outline(box: Box, wide: float) -> Markup:
    """A rounded box; for a gate one with points; for a group one with another behind it."""
    if box.kind == "gate":
        right = wide - _POINT
        points = f"0,{_TALL / 2} {_POINT},0 {right},0 {wide},{_TALL / 2} {right},{_TALL} {_POINT},{_TALL}"
        return tag("polygon", points=points, class_="shape")
    front = tag("rect", width=wide, height=_TALL, rx=9, class_="shape")
    if box.alone is None:
        behind = tag("rect", x=4, y=-4, width=wide - 2, height=_TALL, rx=9, class_="shape")
        return Markup(behind + front)
    return front


_URGENT = (
    *("failed", "interrupted", "running", "held", "blocked", "waiting", "unknown"),
    *("done", "cached", "skipped"),
)


def _state(box: Box) -> str:
    """The state to show of several: the one that asks most for attention."""
    found = {known(state) for state, _ in box.states}
    return next(state for state in _URGENT if state in found)


def _detail(box: Box, steps: Sequence[StepRecord]) -> str:
    if box.alone is None:
        rest = [(state, n) for state, n in box.states if state != "done"]
        return ", ".join(f"{n:,} {known(state)}" for state, n in rest) or "all done"
    record = steps[box.alone]
    told = record.facts.get("verdict") if box.kind == "gate" else None
    said = str(told) if told else brief(record.seconds) if record.state == "done" else known(record.state)
    return f"{box.kind} \u00b7 {said}" if box.kind else said


def shortened(words: str, room: int) -> str:
    """A text cut in its middle, where names differ least."""
    if len(words) <= room:
        return words
    keep = max(2, room - 1)
    return f"{words[: keep - keep // 2]}\u2026{words[len(words) - keep // 2 :]}"


def _level(cells: Sequence[Markup]) -> Markup:
    rows = min(len(cells), max(_ROWS, -(-len(cells) // _COLUMNS)))
    return tag("div", cells, class_="level", style=f"grid-template-rows:repeat({rows},13px)")


def _map(steps: Sequence[StepRecord]) -> Markup:
    """A small square for each step, level by level."""
    edges, _ = edges_of(steps)
    level = levels_of([record.id for record in steps], edges)
    columns: dict[int, list[Markup]] = {}
    for index, record in enumerate(steps):
        state = known(record.sign)
        said = f"{record.id}: {label(state)}"
        cell = tag("a", class_=f"cell s-{state}", href=f"#step-{index}", title=said, aria_label=said)
        columns.setdefault(level[record.id], []).append(cell)
    blocks = [_level(cells) for _, cells in sorted(columns.items())]
    words = f"Every step, level by level, from left to right: {plural(len(steps), 'step')}."
    return Markup(tag("p", words, class_="soft") + tag("div", blocks, class_="map"))
