"""Renders the training curves of all stages: the main metrics first, the others on demand."""

from collections.abc import Mapping, Sequence

from posttrain.runtime.report.chart_lines import ChartLine
from posttrain.runtime.report.curve_data import MAX_POINTS, Curve, build_curve
from posttrain.runtime.report.line_chart import StepMarkers, draw_chart
from posttrain.runtime.report.markup import Markup, tag
from posttrain.runtime.report.number_format import format_number, mapping_or_empty, plural
from posttrain.runtime.report.run_record import Points, RunRecord, StepRecord
from posttrain.runtime.report.stage_legend import stage_legend
from posttrain.runtime.report.step_states import state_label

_MAIN_METRICS = (
    "loss",
    "eval/loss",
    "mean_token_accuracy",
    "margins",
    "accuracies",
    "kl",
    "completions/mean_length",
    "completions/clipped_ratio",
    "unscored",
    "gradient_norm",
    "entropy",
)
_MAIN_COUNT = 6
# Limits of a page. Past them, curves get fewer points, then fewer metrics and stages are drawn.
_POINT_BUDGET = 60_000
_MIN_POINTS = 40
_OPEN_STAGES = 8
_FULL_STAGES = 12
_DRAWN_STAGES = 150


def curves_section(run: RunRecord) -> Markup | None:
    """The curves of every stage; None when no stage reported metrics."""
    stages = [record for record in run.steps if record.events.metrics]
    if not stages:
        return None
    shown = stages[:_DRAWN_STAGES]
    full = len(stages) <= _FULL_STAGES
    most = max(_MIN_POINTS, min(MAX_POINTS, _POINT_BUDGET // sum(_count(record, full) for record in shown)))
    parts = [_stage(record, most, full, n < _OPEN_STAGES) for n, record in enumerate(shown)]
    if not full:
        left = f" of the first {len(shown)}" if len(shown) < len(stages) else ""
        words = (
            f"This run has {len(stages):,} stages: only the main metrics{left} are drawn. The events.jsonl"
        )
        parts.append(tag("p", f"{words} of each step has every metric.", class_="soft"))
    return Markup("".join(parts))


def _count(record: StepRecord, full: bool) -> int:
    return len(record.events.metrics if full else select_main_metrics(record)[0])


def _stage(record: StepRecord, most: int, full: bool, unfolded: bool) -> Markup:
    main, others = select_main_metrics(record)
    events = record.events
    marks = StepMarkers(checkpoints=events.checkpoints, resumed=events.resumed, evals=events.evals)
    shown = [*main, *(name for name in others if full and not _is_constant(events.metrics[name]))]
    curves = {name: build_curve(name, events.metrics[name], most, events.progress) for name in shown}
    body = [stage_legend(marks, curves.values()), _charts(record, main, curves, marks)]
    if full and others:
        body.append(_other_metrics(record, others, curves, marks))
    about = f"{record.step.kind} \u00b7 {plural(_last_step(record), 'step')}"
    about += f" \u00b7 {state_label(record.state)}" if record.state != "done" else ""
    head = Markup(tag("h3", record.id) + tag("span", about, class_="soft"))
    named = {"data_stage": record.id, "data_axes": " ".join(curve_axes([record]))}
    if unfolded:
        return tag("section", tag("div", head, class_="head"), body, class_="card stage", **named)
    return tag("details", tag("summary", head), body, class_="card stage", **named)


def curve_axes(records: Sequence[StepRecord]) -> list[str]:
    """What the script can draw the curves of these runs by: only what all of them know."""
    progress = [record.events.progress for record in records]
    return [
        "steps",
        *(["tokens"] if all(one.tokens for one in progress) else []),
        *(["seconds"] if all(one.seconds for one in progress) else []),
    ]


def _last_step(record: StepRecord) -> int:
    return int(max(points[-1][0] for points in record.events.metrics.values()))


def select_main_metrics(record: StepRecord) -> tuple[list[str], list[str]]:
    """The names of the main metrics, and of the others."""
    metrics = record.events.metrics
    returns = _return_metric(record)
    names = [name for name in metrics if not _is_duplicate_reward(name, returns, metrics)]
    rewards = [name for name in names if name == "reward" or name.startswith("reward/")]
    rewards.sort(key=lambda name: (name != "reward", name != returns))  # the total, then its parts
    main_names = [name for name in _MAIN_METRICS if name in names and not _is_constant(metrics[name])]
    loss, rest = [n for n in main_names if "loss" in n], [n for n in main_names if "loss" not in n]
    main = [*rewards, *loss]
    main += rest[: _free_slots(len(main), len(rest))]
    return main, sorted(name for name in names if name not in main)


def _free_slots(taken: int, offered: int) -> int:
    """How many more main metrics to show: complete rows of three where possible."""
    there = min(_MAIN_COUNT, taken + offered)
    return max(0, (there - there % 3 if there - there % 3 >= taken else there) - taken)


def _return_metric(record: StepRecord) -> str:
    """The metric name of the node that the reward graph returns."""
    params = mapping_or_empty(record.step.params)
    return f"reward/{mapping_or_empty(params.get('reward')).get('returns', '')}"


def _is_duplicate_reward(name: str, returns: str, metrics: Mapping[str, Points]) -> bool:
    """Whether the trainer's `reward` equals the metric of the returned node."""
    if name != "reward" or returns not in metrics:
        return False
    graph, trainer = dict(metrics[returns]), dict(metrics["reward"])
    return graph.keys() == trainer.keys() and all(abs(graph[s] - trainer[s]) < 1e-4 for s in graph)


def _is_constant(points: Points) -> bool:
    return len({value for _, value in points}) == 1


def metric_title(name: str, returns: str) -> str:
    if name == returns:
        return f"reward \u00b7 {name.removeprefix('reward/')} (total)"
    return (
        name.replace("reward/", "reward \u00b7 ").replace("_", " ").replace("completions/", "completions: ")
    )


def _charts(
    record: StepRecord, names: Sequence[str], curves: Mapping[str, Curve], marks: StepMarkers
) -> Markup:
    returns = _return_metric(record)
    found: list[Markup] = []
    for name in names:
        if curves[name].y:
            line = ChartLine(curve=curves[name])
            found.append(draw_chart([line], metric_title(name, returns), marks))
        else:
            found.append(tag("p", f"{metric_title(name, returns)} has no finite value.", class_="soft"))
    return tag("div", found, class_="charts")


def _other_metrics(
    record: StepRecord, names: Sequence[str], curves: Mapping[str, Curve], marks: StepMarkers
) -> Markup:
    """The remaining metrics, collapsed; constant ones as text."""
    varying = [name for name in names if name in curves]
    constant = [name for name in names if name not in curves]
    parts = [_charts(record, varying, curves, marks)] if varying else []
    if constant:
        values = [
            tag("li", metric_title(name, ""), " ", tag("b", format_number(record.events.metrics[name][0][1])))
            for name in constant
        ]
        parts += [tag("p", "Constant:", class_="soft"), tag("ul", values, class_="chips")]
    return tag("details", tag("summary", plural(len(names), "more metric")), parts, class_="more")
