"""Renders the legs of a matrix: their values as columns, and the metrics of all evals side by side."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posttrain.runtime.evaluation.statistics.metric_estimates import CONFIDENCE
from posttrain.runtime.report.markup import SCROLL_ROWS, Markup, scroll_frame, tag
from posttrain.runtime.report.metric_rows import EvalMetric, step_metrics
from posttrain.runtime.report.model_metrics import value_cell
from posttrain.runtime.report.number_format import plural
from posttrain.runtime.report.run_record import RunRecord, StepRecord
from posttrain.runtime.report.step_states import state_badge

_MAX_ROWS, _MAX_COLUMNS = 300, 16
# A comma before the next NAME=; a value can contain commas.
_NEXT_VALUE = re.compile(r",(?=[A-Za-z_]\w*=)")
LegValues = Mapping[str, str]


@dataclass(frozen=True)
class _MeasuredStep:
    # The name of the stage, without the leg.
    stage: str
    values: LegValues
    record: StepRecord
    metrics: Sequence[EvalMetric]


def leg_table(run: RunRecord) -> Markup | None:
    """A row for each leg, with the metrics of all stages; None for a recipe without a matrix.

    A stage that depends on some of the values only, or on none, is in the rows of all legs with these values.
    """
    steps = [_measured(record) for record in run.steps if record.step.kind in ("eval", "benchmark", "train")]
    steps = [step for step in steps if step.metrics or step.record.step.kind in ("eval", "benchmark")]
    legs = _longest_legs([step.values for step in steps])
    if len(legs) < 2:
        return None
    columns = list(dict.fromkeys((s.stage, m.model, m.name) for s in steps for m in s.metrics))[:_MAX_COLUMNS]
    names = list(dict.fromkeys(name for leg in legs for name in leg))
    heads = [*names, *(" \u00b7 ".join(filter(None, column)) for column in columns)]
    head = [
        tag("th", words, scope="col", class_="number" if n >= len(names) else None)
        for n, words in enumerate(heads)
    ]
    rows = [tag("tr", _row(leg, names, columns, steps)) for leg in legs[:_MAX_ROWS]]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), class_="side")
    note = f"Below each value is its {CONFIDENCE:.0%} interval. The best of many legs is partly the luckiest."
    left = f" {plural(len(legs) - len(rows), 'more leg')} not shown." if len(legs) > len(rows) else ""
    return tag(
        "div",
        tag("div", tag("h3", "Matrix"), tag("span", plural(len(legs), "leg"), class_="soft"), class_="head"),
        scroll_frame("The legs of the matrix", table, tall=len(rows) > SCROLL_ROWS),
        tag("p", note + left, class_="soft"),
        class_="card legs",
    )


def _measured(record: StepRecord) -> _MeasuredStep:
    stage = record.id.removesuffix(f"@{record.step.leg}") if record.step.leg else record.id
    return _MeasuredStep(stage, leg_values(record.step.leg), record, step_metrics(record))


def leg_values(leg: str) -> LegValues:
    """The values of a leg: `lr=0.1,seed=2` as a mapping."""
    parts = (part.partition("=") for part in _NEXT_VALUE.split(leg) if part)
    return {name: value for name, _, value in parts}


def _longest_legs(found: Sequence[LegValues]) -> list[LegValues]:
    """The combinations that no other one contains, in their order."""
    unique = [dict(items) for items in dict.fromkeys(tuple(values.items()) for values in found)]
    return [one for one in unique if one and not any(one.items() < other.items() for other in unique)]


def _row(
    leg: LegValues,
    names: Sequence[str],
    columns: Sequence[tuple[str, str, str]],
    steps: Sequence[_MeasuredStep],
) -> list[Markup]:
    own = {step.stage: step for step in steps if step.values.items() <= leg.items()}
    cells = [tag("th", leg.get(name, ""), scope="row") for name in names]
    for stage, model, name in columns:
        step = own.get(stage)
        metrics = step.metrics if step else ()
        metric = next((one for one in metrics if (one.model, one.name) == (model, name)), None)
        if metric is None and step is not None and step.record.state not in ("done", "cached"):
            cells.append(tag("td", state_badge(step.record.state), class_="number"))
        else:
            cells.append(value_cell(metric))
    return cells
