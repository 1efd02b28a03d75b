"""The options --filter and --sort of `recipe runs`."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from posttrain.cli.invalid_usage import InvalidUsage

if TYPE_CHECKING:
    from posttrain.runtime.inspection.run_status import RunSummary

_EXPRESSION = re.compile(r"(?P<field>[^<>=!]+)(?P<op><=|>=|!=|=|<|>)(?P<value>.*)", re.DOTALL)
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXT_FIELDS: "Mapping[str, Callable[[RunSummary], tuple[str, ...]]]" = {
    "state": lambda run: (run.state,),
    "tag": lambda run: run.labels.tags,
    "recipe": lambda run: (run.recipe_name,),
    "name": lambda run: (run.labels.name,),
}
_SORT_FIELDS: "Mapping[str, Callable[[RunSummary], Any]]" = {
    "began": lambda run: run.began,
    "name": lambda run: run.labels.name or run.name,
    "recipe": lambda run: run.recipe_name,
    "state": lambda run: run.state,
    "took": lambda run: run.seconds,
}


def filter_runs(runs: "Sequence[RunSummary]", expressions: Sequence[str]) -> "list[RunSummary]":
    """The runs that fulfil every expression: FIELD=VALUE, or a metric and a number."""
    kept = list(runs)
    for expression in expressions:
        fits = _parse_filter(expression, runs)
        kept = [run for run in kept if fits(run)]
    return kept


def _parse_filter(expression: str, runs: "Sequence[RunSummary]") -> "Callable[[RunSummary], bool]":
    found = _EXPRESSION.fullmatch(expression.strip())
    if found is None:
        raise InvalidUsage(
            f"--filter {expression}: expected FIELD=VALUE, such as state=finished or after.accuracy>0.8"
        )
    field, op, value = (found[part].strip() for part in ("field", "op", "value"))
    if field in _TEXT_FIELDS:
        if op not in ("=", "!="):
            raise InvalidUsage(f"--filter {expression}: `{field}` is a text; compare it with = or !=")
        return lambda run: (value in _TEXT_FIELDS[field](run)) == (op == "=")
    _check_metric("--filter", field, _TEXT_FIELDS, runs)
    try:
        number = float(value)
    except ValueError:
        raise InvalidUsage(f"--filter {expression}: `{value}` is not a number") from None
    compare = _COMPARISONS[op]

    def fits(run: "RunSummary") -> bool:
        measured = metric_value(run, field)
        return measured is not None and compare(measured, number)

    return fits


def sort_runs(runs: "Sequence[RunSummary]", key: str | None) -> "list[RunSummary]":
    """The runs by a field or a metric; a minus reverses the order. Runs without a value are last."""
    if key is None:
        return list(runs)
    name = key.removeprefix("-")
    if name not in _SORT_FIELDS:
        _check_metric("--sort", name, _SORT_FIELDS, runs)

    def read(run: "RunSummary") -> Any:
        return _SORT_FIELDS[name](run) if name in _SORT_FIELDS else metric_value(run, name)

    known = [run for run in runs if read(run) is not None]
    return [
        *sorted(known, key=read, reverse=key.startswith("-")),
        *(run for run in runs if read(run) is None),
    ]


def metric_value(run: "RunSummary", name: str) -> float | None:
    return run.metrics.get(name, {}).get("value")


def main_metrics(runs: "Sequence[RunSummary]", most: int) -> list[str]:
    """The metrics to show: those that most runs have; of these, the last ones of the plan."""
    counts: dict[str, int] = {}
    last: dict[str, int] = {}
    for run in runs:
        for place, name in enumerate(run.metrics):
            counts[name] = counts.get(name, 0) + 1
            last[name] = max(last.get(name, 0), place)
    return sorted(counts, key=lambda name: (-counts[name], -last[name], name))[:most]


def _check_metric(option: str, name: str, fields: Mapping[str, object], runs: "Sequence[RunSummary]") -> None:
    """Report a name that is neither a field nor a metric of a run."""
    metrics = {metric for run in runs for metric in run.metrics}
    if runs and name not in metrics:
        from posttrain.spec.suggestions import hint

        advice = hint(name, [*fields, *metrics], what="fields and metrics")[0]
        raise InvalidUsage(f"{option}: no run has a metric `{name}`; {advice}")
