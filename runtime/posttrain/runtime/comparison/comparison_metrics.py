"""Renders the metrics of the runs by stage: values, differences and paired intervals."""

from collections.abc import Iterator, Mapping, Sequence

from posttrain.runtime.comparison.compared_run import ComparedRun, shared_stages
from posttrain.runtime.comparison.stage_comparison import MetricComparison, StageComparison
from posttrain.runtime.evaluation.statistics.metric_estimates import CONFIDENCE
from posttrain.runtime.report.axis_scale import padded_range
from posttrain.runtime.report.interval_bars import finite_values, interval_bar
from posttrain.runtime.report.markup import SCROLL_ROWS, Markup, scroll_frame, tag
from posttrain.runtime.report.number_format import (
    DASH,
    finite_or_none,
    format_count,
    format_decimals,
    format_interval,
    format_signed,
    format_signed_interval,
    mapping_or_empty,
    plural,
)

_COLUMNS = (
    "Metric",
    "Run",
    "Value",
    "",
    "Difference",
    "",
    "Interval chart",
    "Better",
    "Worse",
    "Same",
    "Left out",
)
_TEXT_COLUMNS = ("Metric", "Run", "Interval chart")
# The comparisons of each run after the first with the first one, by its place among the runs.
Comparisons = Mapping[int, Sequence[StageComparison]]


def metrics_section(runs: Sequence[ComparedRun], comparisons: Comparisons) -> Markup | None:
    """A card for each stage; None if no run has metrics."""
    by_stage: dict[str, dict[int, StageComparison]] = {}
    for place, stages in comparisons.items():
        for stage in stages:
            by_stage.setdefault(stage.stage, {})[place] = stage
    if not by_stage:
        return None
    names = [name for name in shared_stages(runs) if name in by_stage]
    note = (
        f"Differences are the run minus {runs[0].mark}. Those with an interval are means over the items of"
        " both runs: rows of the data that are equal. Each interval holds for itself: of many, some exclude"
        " zero by chance."
    )
    return Markup(
        tag("p", note, class_="soft lead-in")
        + "".join(_stage_card(runs, name, by_stage[name]) for name in names)
    )


def _stage_card(runs: Sequence[ComparedRun], name: str, found: Mapping[int, StageComparison]) -> Markup:
    metrics = list(dict.fromkeys(metric.name for stage in found.values() for metric in stage.metrics))
    interval = f"{CONFIDENCE:.0%} interval"
    head = [
        tag("th", words or interval, scope="col", class_=None if words in _TEXT_COLUMNS else "number")
        for words in _COLUMNS
    ]
    bodies = [tag("tbody", _metric_rows(runs, metric, found)) for metric in metrics]
    table = tag("table", tag("thead", tag("tr", head)), bodies, class_="side differences")
    rows = len(metrics) * (len(found) + 1)
    return tag(
        "section",
        tag("h3", name),
        scroll_frame(f"Metrics of {name}", table, tall=rows > SCROLL_ROWS),
        list(_remarks(runs, found)),
        class_="card",
    )


def _metric_rows(
    runs: Sequence[ComparedRun], name: str, found: Mapping[int, StageComparison]
) -> Iterator[Markup]:
    """A row for the baseline, and one for each other run that has the stage."""
    metrics = {
        place: metric for place, stage in found.items() for metric in stage.metrics if metric.name == name
    }
    ends = _symmetric_range(list(metrics.values()))
    base = next((metric.base for metric in metrics.values() if metric.base is not None), None)
    yield tag(
        "tr",
        tag("th", name, scope="row", rowspan=str(1 + len(metrics))),
        _run_cell(runs, 0),
        _value_cells(base),
        tag("td", "baseline", class_="number soft"),
        tag("td"),
        tag("td", class_="drawn"),
        [tag("td") for _ in range(4)],
    )
    for place, metric in metrics.items():
        yield tag("tr", _run_cell(runs, place), _value_cells(metric.other), _difference_cells(metric, ends))


def _run_cell(runs: Sequence[ComparedRun], place: int) -> Markup:
    return tag("td", tag("b", runs[place].mark), title=runs[place].title)


def _value_cells(metric: Mapping[str, object] | None) -> list[Markup]:
    found = mapping_or_empty(metric)
    return [
        tag("td", tag("b", format_decimals(found.get("value"))), class_="number"),
        tag("td", format_interval(found.get("low"), found.get("high")), class_="number"),
    ]


def _difference_cells(metric: MetricComparison, ends: tuple[float, float]) -> list[Markup]:
    difference = tag("td", tag("b", format_signed(metric.difference)), class_="number")
    paired = metric.paired
    if paired is None:
        unpaired = tag("td", "not paired" if metric.difference is not None else DASH, class_="number soft")
        return [difference, unpaired, tag("td", class_="drawn"), *(tag("td") for _ in range(4))]
    values = finite_values(*(paired.get(name) for name in ("value", "low", "high")))
    drawn = interval_bar(values[0], values[1], values[2], ends, zero=True) if values else None
    state = "cached" if values and (values[1] > 0 or values[2] < 0) else "waiting"
    better, worse, items = (finite_or_none(paired.get(name)) or 0.0 for name in ("better", "worse", "items"))
    counts = (better, worse, items - better - worse, metric.unpaired_count)
    return [
        difference,
        tag("td", format_signed_interval(*values[1:]) if values else DASH, class_="number"),
        tag("td", drawn, class_=f"drawn s-{state}"),
        *(tag("td", format_count(count), class_="number") for count in counts),
    ]


def _symmetric_range(metrics: Sequence[MetricComparison]) -> tuple[float, float]:
    """An axis range centered on zero that the comparisons of a metric share."""
    intervals = [
        finite_values(*(metric.paired.get(name) for name in ("value", "low", "high")))
        for metric in metrics
        if metric.paired is not None
    ]
    furthest = max((abs(value) for values in intervals if values for value in values), default=0.0)
    return padded_range((-furthest, furthest)) if furthest else (-1.0, 1.0)


def _remarks(runs: Sequence[ComparedRun], found: Mapping[int, StageComparison]) -> Iterator[Markup]:
    """Why items are not paired, and which ones are left out."""
    for place, stage in found.items():
        mark = runs[place].mark
        if stage.reasons:
            yield tag("p", tag("b", mark), f" is not paired: {'; '.join(stage.reasons)}.", class_="remark")
            continue
        for metric in stage.metrics:
            if metric.reason:
                words = f", {metric.name}: not paired, because {metric.reason}."
                yield tag("p", tag("b", mark), words, class_="remark")
            elif metric.unpaired_count:
                yield _left_out(mark, metric)


def _left_out(mark: str, metric: MetricComparison) -> Markup:
    items = [tag("li", f"{item.name} ({item.mark}: {item.cause})") for item in metric.unpaired]
    more = metric.unpaired_count - len(items)
    items += [tag("li", f"and {more:,} more")] if more else []
    title = f", {metric.name}: {plural(metric.unpaired_count, 'item')} left out"
    return tag(
        "details", tag("summary", tag("b", mark), title), tag("ul", items, class_="plain"), class_="remark"
    )
