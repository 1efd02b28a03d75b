"""The progress of a running step on one line: units done, rate, remaining time, loss or reward."""

from collections.abc import Mapping
from typing import Any

from posttrain.runtime.report.number_format import format_short_duration


def progress_text(facts: Mapping[str, Any]) -> str:
    """`facts` are those of `event_tail.progress_facts`."""
    parts = [f"{facts['done']}/{facts['total']} {facts['unit']}", _rate_text(facts), _left_text(facts)]
    return "  ".join(filter(None, (*parts, metrics_text(facts["metrics"]))))


def metrics_text(metrics: Mapping[str, float]) -> str:
    return " ".join(f"{name} {value:.4g}" for name, value in metrics.items())


def _rate_text(facts: Mapping[str, Any]) -> str:
    """Units per second, or seconds per unit of slow work."""
    rate = facts["per_second"]
    if not rate:
        return ""
    unit = str(facts["unit"])
    if rate >= 1:
        return f"{rate:.3g} {unit}/s"
    return f"{format_short_duration(1 / rate)}/{unit.removesuffix('s')}"


def _left_text(facts: Mapping[str, Any]) -> str:
    left = facts["seconds_left"]
    return f"{format_short_duration(left)} left" if left else ""
