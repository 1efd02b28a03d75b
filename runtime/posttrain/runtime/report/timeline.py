"""Renders the timeline: a row for each step, with a bar from its start to its end."""

from collections.abc import Sequence

from posttrain.runtime.report.api_usage_table import api_usage_table
from posttrain.runtime.report.axis_scale import ticks
from posttrain.runtime.report.expected_vs_measured import estimates_table, expected_seconds, expected_time
from posttrain.runtime.report.markup import SCROLL_ROWS, Markup, join_markup, scroll_frame, tag
from posttrain.runtime.report.number_format import (
    finite_or_none,
    format_duration,
    format_short_duration,
    plural,
)
from posttrain.runtime.report.run_record import RunRecord, StepRecord
from posttrain.runtime.report.step_states import known_state, state_icon, state_label

_ROW = 30
_BAR = 14
_MAX_REASON = 20
# The end of a bar up to which a duration fits behind it, on a page of 400 pixels.
_CAPTION_ROOM = 0.6
_UNITS = (1.0, 60.0, 3600.0)


def timeline_section(run: RunRecord) -> Markup:
    span = run_span(run)
    if span is None:
        return tag("p", "This run started no step.", class_="card soft")
    marks = time_ticks(span[1] - span[0])
    rows = [_row(index, record, span, marks) for index, record in enumerate(run.steps)]
    rows.append(_axis(span[1] - span[0], marks))
    many = len(run.steps) > SCROLL_ROWS
    body = scroll_frame("All steps over time", rows, tall=True) if many else join_markup(rows)
    return join_markup([tag("div", body, class_="card timeline"), estimates_table(run), api_usage_table(run)])


def run_span(run: RunRecord) -> tuple[float, float] | None:
    """The first recorded start and the last recorded end."""
    began = [r.began for r in run.steps if r.began is not None]
    if not began:
        return None
    ended = [r.ended for r in run.steps if r.ended is not None]
    if run.ended is not None:
        ended.append(run.ended)
    first = min([*began, run.began] if run.began is not None else began)
    last = max([*began, *ended])
    return first, last if last > first else first + 1.0


def time_ticks(seconds: float) -> list[float]:
    """Ticks at round numbers of seconds, minutes or hours."""
    unit = next((u for u in reversed(_UNITS) if seconds >= 2 * u), 1.0)
    return [tick * unit for tick in ticks(0.0, seconds / unit, 4)]


def tick_label(seconds: float, longest: float) -> str:
    if longest >= 2 * 3600:
        return f"{seconds / 3600:g} h"
    return f"{seconds / 60:g} min" if longest >= 120 else f"{seconds:g} s"


def _axis(length: float, marks: Sequence[float]) -> Markup:
    texts = [
        tag(
            "text",
            tick_label(mark, length),
            x=_percent(mark / length),
            y=14,
            class_="tick",
            text_anchor=_anchor(mark, length),
        )
        for mark in marks
    ]
    return tag(
        "div", tag("span"), tag("svg", texts, height=20, width="100%", aria_hidden="true"), class_="row times"
    )


def _anchor(mark: float, length: float) -> str:
    return "start" if mark <= 0 else "end" if mark > 0.97 * length else "middle"


def _percent(share: float) -> str:
    return f"{100 * share:.3f}%"


def _row(index: int, record: StepRecord, span: tuple[float, float], marks: Sequence[float]) -> Markup:
    length = span[1] - span[0]
    grid = [
        tag("line", x1=_percent(m / length), x2=_percent(m / length), y1=0, y2=_ROW, class_="grid")
        for m in marks
    ]
    name = tag(
        "a",
        state_icon(record.display_state),
        tag("span", record.id, class_="cut"),
        href=f"#step-{index}",
        title=record.id,
    )
    drawn = tag(
        "svg",
        grid,
        _bar(record, span),
        height=_ROW,
        width="100%",
        role="img",
        aria_label=_describe(record, span[0]),
    )
    return tag("div", name, drawn, class_=f"row s-{known_state(record.display_state)}")


def _describe(record: StepRecord, start: float) -> str:
    label = f"{record.id}: {state_label(record.state)}"
    if record.began is None:
        return label
    ended = f", took {format_duration(record.seconds)}" if record.ended is not None else ""
    expected = f", {expected_time(record)} expected" if expected_time(record) else ""
    return f"{label}, started after {format_duration(record.began - start)}{ended}{expected}"


def _bar(record: StepRecord, span: tuple[float, float]) -> Markup:
    """The bar with its duration as text; only text for a step that this run did not start."""
    if record.began is None or record.state == "cached":
        return tag("text", _no_bar_text(record), x=6, y=_ROW / 2 + 4, class_="tick")
    first, last = span
    ended = record.ended if record.ended is not None and record.ended >= record.began else last
    start, end = (record.began - first) / (last - first), (ended - first) / (last - first)
    top = (_ROW - _BAR) / 2
    bar = tag(
        "rect",
        x=_percent(start),
        y=top,
        width=_percent(max(end - start, 0.003)),
        height=_BAR,
        rx=4,
        class_="bar",
    )
    words = format_duration(ended - record.began) if record.ended is not None else state_label(record.state)
    if record.attempt > 1:
        words += f" \u00b7 attempt {record.attempt}"
    return Markup(
        bar + _phases(record, span, top) + _expected(record, span) + _bar_caption(words, start, end)
    )


def _bar_caption(words: str, start: float, end: float) -> Markup:
    """The duration after the bar, before it, or on it: where a narrow page has room."""
    is_after, is_before = end <= _CAPTION_ROOM, start >= 1 - _CAPTION_ROOM
    return tag(
        "text",
        words,
        x=_percent(start if is_before and not is_after else end),
        dx=7 if is_after else -7,
        y=_ROW / 2 + 4,
        text_anchor="start" if is_after else "end",
        class_="tick" if is_after or is_before else "tick on-bar",
    )


def _expected(record: StepRecord, span: tuple[float, float]) -> Markup:
    """A mark at the expected end of the step, if that is before the end of the run."""
    first, last = span
    seconds = expected_seconds(record)
    if seconds is None or record.began is None or not 0 <= record.began + seconds - first <= last - first:
        return Markup()
    x = _percent((record.began + seconds - first) / (last - first))
    words = tag("title", f"{record.id} was expected to take {format_short_duration(seconds)}")
    return tag("line", words, x1=x, x2=x, y1=4, y2=_ROW - 4, class_="expected")


def _phases(record: StepRecord, span: tuple[float, float], top: float) -> Markup:
    """A line at the start of each phase of the step."""
    first, last = span
    assert record.began is not None, "a bar has a beginning"
    end = record.ended if record.ended is not None else last
    inner = [(name, at) for name, at in record.events.phases if record.began < at < end]
    lines = [
        tag(
            "line",
            tag("title", f"{name} from {format_duration(at - record.began)}"),
            x1=_percent((at - first) / (last - first)),
            x2=_percent((at - first) / (last - first)),
            y1=top,
            y2=top + _BAR,
            class_="phase",
        )
        for name, at in inner
    ]
    return Markup("".join(lines))


def _no_bar_text(record: StepRecord) -> str:
    if record.state == "cached":
        seconds = finite_or_none(record.cost.get("seconds"))
        return "cache hit" + (f"; first run took {format_duration(seconds)}" if seconds is not None else "")
    if record.state in ("done", "running", "unknown"):
        return "no times were recorded"
    if record.state == "skipped":
        # A long reason does not fit on a narrow page; the section above shows it.
        short = 0 < len(record.reason) <= _MAX_REASON
        return f"{state_label('skipped')}: {record.reason}" if short else state_label("skipped")
    return record.reason or state_label(record.state)


def work_summary(run: RunRecord) -> str:
    """How many steps this run executed, and how many came from the cache."""
    executed = [r for r in run.steps if r.state != "cached" and r.began is not None]
    saved = [finite_or_none(r.cost.get("seconds")) or 0.0 for r in run.steps if r.state == "cached"]
    text = f"{plural(len(executed), 'step')} run"
    return text + (f", {len(saved):,} cached ({format_duration(sum(saved))} saved)" if saved else "")
