"""Follows the events of a running step: its progress, with rate and remaining time, its latest metrics,
and its warnings."""

import math
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.runtime.events import metric_number, parse_event

_SHOWN_METRICS = ("loss", "reward")
_EVALUATED = "eval/loss"
_RATE_SECONDS = 30.0
_TAIL_BYTES = 256 * 1024  # bytes at the end of a file to search for the last metrics


class ProgressRate:
    """Units per second over the last 30 s, or over the last two reports if a unit takes longer."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque()
        self._unit: tuple[Any, Any] = (None, None)

    def restart(self) -> None:
        """Forget the past, which belongs to another attempt or to another part of the work."""
        self._points.clear()

    def add(self, event: Mapping[str, Any]) -> None:
        at, done = event.get("at"), event["done"]
        if not isinstance(at, int | float) or not isinstance(done, int | float):
            return
        unit = (event["unit"], event["total"])
        last_at, last_done = self._points[-1] if self._points else (at, done)
        if unit != self._unit or done < last_done or at < last_at:
            self.restart()
        self._unit = unit
        if not self._points or done > self._points[-1][1]:
            self._points.append((at, done))
        while len(self._points) > 2 and at - self._points[1][0] > _RATE_SECONDS:
            self._points.popleft()

    def per_second(self) -> float | None:
        if len(self._points) < 2:
            return None
        (start, first), (end, last) = self._points[0], self._points[-1]
        return (last - first) / (end - start) if end > start else None


class EventTail:
    """Follows the events of a step and reads only new lines."""

    def __init__(self, path: Path, *, only_new: bool = False) -> None:
        self._path = path
        self._offset = path.stat().st_size if only_new and path.exists() else 0
        self._latest: Mapping[str, Any] | None = None
        self._metrics: dict[str, float] = {}
        self._rate = ProgressRate()
        self._seen_warnings: set[str] = set()
        self._pending_warnings: list[dict[str, Any]] = []

    def progress(self) -> dict[str, Any] | None:
        """The latest progress, as `progress_facts` returns it; None without news since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return None
        complete = data.rfind(b"\n") + 1
        self._offset += complete
        is_new = self._read(data[:complete].splitlines())
        return progress_facts(self._latest, self._rate, self._metrics) if is_new and self._latest else None

    def _read(self, lines: Iterable[bytes]) -> bool:
        """Whether there is new progress, or new metrics: those of a step follow its progress."""
        is_new = False
        for line in lines:
            event = parse_event(line) or {"kind": None}
            if _is_progress(event):
                is_new, self._latest = True, event
                self._rate.add(event)
            elif event["kind"] == "started":
                self._latest = None
                self._rate.restart()
            elif event["kind"] == "metrics" and isinstance(event.get("values"), dict):
                metrics = shown_metrics(event["values"])
                is_new, self._metrics = is_new or bool(metrics), metrics or self._metrics
            elif (
                event["kind"] == "warning"
                and (message := str(event.get("message"))) not in self._seen_warnings
            ):
                self._seen_warnings.add(message)
                self._pending_warnings.append({"reason": message, "advice": str(event.get("advice") or "")})
        return is_new

    def warnings(self) -> list[dict[str, Any]]:
        """The new warnings in the events read so far, each message once."""
        pending, self._pending_warnings = self._pending_warnings, []
        return pending


def progress_facts(
    event: Mapping[str, Any], rate: ProgressRate, metrics: Mapping[str, float]
) -> dict[str, Any]:
    """`done`, `total`, `unit`, `per_second` and `seconds_left` (None when unknown), and the metrics."""
    per_second, total, done = rate.per_second(), event["total"], event["done"]
    known = per_second and isinstance(total, int | float) and isinstance(done, int | float)
    left = max(0.0, total - done) / per_second if known and per_second else None
    facts = {name: event[name] for name in ("done", "total", "unit")}
    return {**facts, "per_second": per_second, "seconds_left": left, "metrics": dict(metrics)}


def shown_metrics(values: Mapping[str, Any], names: Sequence[str] = _SHOWN_METRICS) -> dict[str, float]:
    numbers = ((name, metric_number(values.get(name))) for name in names)
    return {name: number for name, number in numbers if number is not None}


def last_progress(path: Path) -> dict[str, Any] | None:
    """The progress of a running step, from the end of its events."""
    rate, latest = ProgressRate(), None
    for event in (parse_event(line) or {"kind": None} for line in _last_lines(path)):
        if event["kind"] == "started":
            rate.restart()
            latest = None
        elif _is_progress(event):
            latest = event
            rate.add(event)
    return progress_facts(latest, rate, {}) if latest else None


def last_metrics(path: Path) -> dict[str, float]:
    """The last loss, reward and loss on held-out rows of a training. Reads only the end of the events."""
    lines = _last_lines(path)
    evaluated = [line for line in lines if _EVALUATED.encode() in line][-1:]
    return {**_last_shown(lines, _SHOWN_METRICS), **_last_shown(evaluated, (_EVALUATED,))}


def _last_lines(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().splitlines()
    except OSError:
        return []


def _last_shown(lines: Sequence[bytes], names: Sequence[str]) -> dict[str, float]:
    for line in reversed(lines):
        event = parse_event(line) or {"kind": None}
        if event["kind"] == "metrics" and isinstance(event.get("values"), dict):
            shown = shown_metrics(event["values"], names)
            if shown:
                return shown
    return {}


def _is_progress(event: Mapping[str, Any]) -> bool:
    """Whether an event is progress with usable amounts: the code of a user can write into the file."""
    amounts = (metric_number(event.get(name)) for name in ("done", "total"))
    return (
        event["kind"] == "progress"
        and isinstance(event.get("unit"), str)
        and all(amount is not None and math.isfinite(amount) for amount in amounts)
    )
