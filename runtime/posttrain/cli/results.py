"""The result of a step from the facts of its product, as short text and as data."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posttrain.runtime.report.number_format import finite_or_none, mapping_or_empty

# Labels of the rates that an eval reports in addition to its metrics, by the names of the facts.
_RATE_LABELS = {
    "unscored": "unscored",
    "truncated": "truncated",
    "timed_out": "timed out",
    "failed": "without a reply",
}
_CONDITION_KEYS = ("text", "verdict")
_INTERVAL_KEYS = ("value", "low", "high")


def result_lines(facts: Mapping[str, Any], max_metrics: int | None = None) -> list[str]:
    """Metrics with their intervals, a gate's verdict with its unmet conditions, row counts.

    `max_metrics` limits the number of metrics and omits the conditions of a verdict.
    """
    metrics = [(name, one) for name, one in _metrics(facts).items() if one["value"] is not None]
    parts = [_metric_text(name, one) for name, one in metrics[:max_metrics]]
    parts += [f"and {len(metrics) - len(parts)} more"] if len(metrics) > len(parts) else []
    rates = ((finite_or_none(facts.get(key)), word) for key, word in _RATE_LABELS.items())
    parts += [f"{rate:.1%} {word}" for rate, word in rates if rate]
    parts += [f"verdict: {facts['verdict']}"] if "verdict" in facts else []
    parts += [] if max_metrics is not None else _unmet_conditions(facts)
    return parts + [f"{n} rows" if part == "all" else f"{n} {part} rows" for part, n in _row_counts(facts)]


def result_data(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The complete result as data: metrics, verdict and row counts, without empty parts."""
    found = {
        "metrics": _metrics(facts),
        "verdict": facts.get("verdict"),
        "conditions": [{part: one[part] for part in _CONDITION_KEYS} for one in _conditions(facts)],
        "rows": dict(_row_counts(facts)),
    }
    return {name: value for name, value in found.items() if value}


def _metrics(facts: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """The metrics with their intervals. Facts can be those of another release: what is not as expected is
    left out."""
    return {
        str(name): {end: finite_or_none(one.get(end)) for end in _INTERVAL_KEYS}
        for name, one in mapping_or_empty(facts.get("metrics")).items()
        if isinstance(one, Mapping)
    }


def _conditions(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = facts.get("conditions")
    conditions = [mapping_or_empty(one) for one in found] if isinstance(found, list) else []
    return [one for one in conditions if all(part in one for part in _CONDITION_KEYS)]


def _metric_text(name: str, metric: Mapping[str, float | None]) -> str:
    low, high = metric["low"], metric["high"]
    ends = "" if low is None or high is None else f" [{low:.3f}, {high:.3f}]"  # one item has no interval
    return f"{name} {metric['value']:.3f}{ends}"


def _row_counts(facts: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
    return [(name.removeprefix("rows."), n) for name, n in facts.items() if name.startswith("rows.")]


def _unmet_conditions(facts: Mapping[str, Any]) -> Iterator[str]:
    """The conditions of a gate that did not pass, with their values and intervals. Their verdict stands
    before them if it is not that of the gate, which is shown already."""
    for one in _conditions(facts):
        if one["verdict"] != "pass":
            verdict = "" if one["verdict"] == facts.get("verdict") else f"{one['verdict']}: "
            ends = [finite_or_none(one.get(end)) for end in _INTERVAL_KEYS]
            value, low, high = ends
            numbers = "" if None in ends else f": {value:.3g} [{low:.3g}, {high:.3g}]"
            yield f"{verdict}{one['text']}{numbers}"
