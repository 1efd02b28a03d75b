"""Renders the training curves of the runs, overlaid: the main metrics of each stage first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posttrain.runtime.comparison.compared_run import ComparedRun, shared_stages
from posttrain.runtime.comparison.line_styles import color_class, dash_pattern, line_key
from posttrain.runtime.report.chart_lines import ChartLine
from posttrain.runtime.report.curve_data import MAX_POINTS, build_curve
from posttrain.runtime.report.line_chart import StepMarkers, draw_chart
from posttrain.runtime.report.markup import SCROLL_ROWS, Markup, scroll_frame, tag
from posttrain.runtime.report.number_format import (
    DASH,
    finite_or_none,
    format_number,
    format_signed,
    mapping_or_empty,
    plural,
)
from posttrain.runtime.report.run_record import StepRecord
from posttrain.runtime.report.stage_legend import OVERLAY_SMOOTHING, stage_legend
from posttrain.runtime.report.training_curves import curve_axes, metric_title, select_main_metrics

# Limits of a page: points of all curves, stages, and metrics of a stage.
_POINT_BUDGET, _MIN_POINTS = 60_000, 40
_MAX_STAGES, _MAX_METRICS = 40, 40


@dataclass(frozen=True)
class _Stage:
    name: str
    # The runs that trained it, with their places in the comparison.
    records: Mapping[int, StepRecord]
    main: Sequence[str]
    others: Sequence[str]


def curves_section(runs: Sequence[ComparedRun]) -> Markup | None:
    """The curves of every stage that a run trained; None when no stage reported metrics."""
    stages = [stage for name in shared_stages(runs) if (stage := _stage(runs, name)).records]
    if not stages:
        return None
    shown = stages[:_MAX_STAGES]
    count = sum(len(stage.records) * len([*stage.main, *stage.others]) for stage in shown)
    most = max(_MIN_POINTS, min(MAX_POINTS, _POINT_BUDGET // max(1, count)))
    parts = [_stage_card(runs, stage, most) for stage in shown]
    if len(stages) > len(shown):
        parts.append(tag("p", f"{plural(len(stages) - len(shown), 'more stage')} not drawn.", class_="soft"))
    return Markup("".join(parts))


def _stage(runs: Sequence[ComparedRun], name: str) -> _Stage:
    found = ((place, run.step(name)) for place, run in enumerate(runs))
    records = {place: one for place, one in found if one is not None and one.events.metrics}
    main: dict[str, None] = {}
    others: dict[str, None] = {}
    for record in records.values():
        first, rest = select_main_metrics(record)
        main |= dict.fromkeys(first)
        others |= dict.fromkeys(rest)
    return _Stage(name, records, list(main), [one for one in others if one not in main])


def _stage_card(runs: Sequence[ComparedRun], stage: _Stage, most: int) -> Markup:
    main, others = stage.main[:_MAX_METRICS], stage.others[:_MAX_METRICS]
    lines = {name: _lines(runs, stage, name, most) for name in (*main, *others)}
    curves = [line.curve for found in lines.values() for line in found]
    body = [
        tag("div", tag("h3", stage.name), _legend(runs, stage), class_="head"),
        stage_legend(StepMarkers(), curves, OVERLAY_SMOOTHING),
        _charts(stage, {name: lines[name] for name in main}),
    ]
    if others:
        title = tag("summary", plural(len(others), "more metric"))
        charts = _charts(stage, {name: lines[name] for name in others})
        body.append(tag("details", title, charts, class_="more"))
    title = tag("summary", "Last values as a table")
    body.append(tag("details", title, _table(runs, stage, list(lines)), class_="more"))
    axes = " ".join(curve_axes(list(stage.records.values())))
    return tag("section", body, class_="card stage", data_stage=stage.name, data_axes=axes)


def _legend(runs: Sequence[ComparedRun], stage: _Stage) -> Markup:
    items = [
        tag(
            "li",
            line_key(place),
            tag("b", runs[place].mark),
            " ",
            tag("span", runs[place].title, class_="cut"),
        )
        for place in stage.records
    ]
    return tag("ul", items, class_="run-keys")


def _lines(runs: Sequence[ComparedRun], stage: _Stage, name: str, most: int) -> list[ChartLine]:
    """The lines of the runs that have a metric."""
    return [
        ChartLine(
            curve=build_curve(name, record.events.metrics[name], most, record.events.progress),
            mark=runs[place].mark,
            name=runs[place].title,
            color=color_class(place),
            dash=dash_pattern(place),
        )
        for place, record in stage.records.items()
        if name in record.events.metrics
    ]


def _charts(stage: _Stage, lines: Mapping[str, Sequence[ChartLine]]) -> Markup:
    charts: list[Markup] = []
    for name, found in lines.items():
        title = metric_title(name, _returned_metric(stage))
        if any(line.curve.y for line in found):
            charts.append(draw_chart(found, title, StepMarkers()))
        else:
            charts.append(tag("p", f"{title} has no finite value.", class_="soft"))
    return tag("div", charts, class_="charts")


def _returned_metric(stage: _Stage) -> str:
    params = mapping_or_empty(next(iter(stage.records.values())).step.params)
    return f"reward/{mapping_or_empty(params.get('reward')).get('returns', '')}"


def _table(runs: Sequence[ComparedRun], stage: _Stage, names: Sequence[str]) -> Markup:
    """The last value of each metric in each run, with the difference from the first of them."""
    places = list(stage.records)
    head = [tag("th", "Metric", scope="col")]
    head += [tag("th", runs[place].mark, scope="col", class_="number") for place in places]
    rows = [
        tag(
            "tr", tag("th", name, scope="row"), _last_values([stage.records[place] for place in places], name)
        )
        for name in names
    ]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), class_="side")
    return scroll_frame(f"Last values of {stage.name}", table, tall=len(rows) > SCROLL_ROWS)


def _last_values(records: Sequence[StepRecord], name: str) -> list[Markup]:
    points = [record.events.metrics.get(name) for record in records]
    last = [found[-1][1] if found else None for found in points]
    first = finite_or_none(last[0])
    cells: list[Markup] = []
    for place, value in enumerate(last):
        change, known = None, finite_or_none(value)
        if place > 0 and known is not None and first is not None:
            change = tag("span", format_signed(known - first), class_="soft")
        shown = tag("b", DASH if value is None else format_number(value))
        cells.append(tag("td", shown, change, class_="number value"))
    return cells
