"""Writes and reads the events of a step: one JSON object per line, readable at any time.

Every event has `at` (seconds since the epoch) and `kind`; `KINDS` lists the kinds with their fields.
"""

import json
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

KINDS: Mapping[str, tuple[str, ...]] = {
    "started": ("attempt", "hardware"),
    "resumed": ("step",),
    "phase": ("name",),
    "progress": ("done", "total", "unit"),
    "metrics": ("step", "values"),
    "sample": ("step", "prompt", "completion", "values", "model", "transcript"),
    "checkpoint": ("step",),
    "warning": ("message", "advice"),
    "finished": ("seconds", "peak_memory_mb"),
}


class EventWriter:
    def __init__(self, path: Path) -> None:
        is_partial = _has_partial_line(path)
        self._file = path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)
        if is_partial:
            self._file.write("\n")
        self._last_progress = 0.0
        self._write_lock = threading.Lock()  # the thread that finalizes checkpoints emits events too

    def emit(self, kind: str, **fields: Any) -> None:
        assert set(fields) <= set(KINDS[kind]), f"an event {kind} has no {set(fields) - set(KINDS[kind])}"
        line = json.dumps({"at": round(time.time(), 3), "kind": kind, **fields}, ensure_ascii=False)
        with self._write_lock:
            self._file.write(line + "\n")

    def progress(self, done: int, total: int, unit: str) -> None:
        """Report progress, at most five times a second."""
        now = time.monotonic()
        if done >= total or now - self._last_progress > 0.2:
            self._last_progress = now
            self.emit("progress", done=done, total=total, unit=unit)


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events of a step, without a truncated last line.

    An attempt that resumes from a checkpoint repeats the steps after that checkpoint, and an attempt
    that starts over repeats all steps. Only the events of the last execution are returned. An attempt that
    ends before its first step, while the model loads, does not hide the one before it. Raises ValueError for
    damaged events that have no order.
    """
    previous: list[dict[str, Any]] = []
    current: list[dict[str, Any]] = []
    for event in _iter_events(path):
        if event["kind"] == "started":
            previous, current = current if _has_steps(current) else previous, []
        elif event["kind"] == "resumed":
            resumed = _step_number(event)
            current = [e for e in previous if _step_number(e, missing=0) <= resumed] + current
        current.append(event)
    return current


def _step_number(event: Mapping[str, Any], missing: float | None = None) -> float:
    number = metric_number(event.get("step", missing))
    if number is None:
        raise ValueError(f"an event {event['kind']} has no valid step")
    return number


def _has_steps(events: list[dict[str, Any]]) -> bool:
    return any("step" in event for event in events)


def _iter_events(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            event = parse_event(line)
            if event is not None:
                yield event


def _has_partial_line(path: Path) -> bool:
    """Whether the last line lacks a line feed."""
    try:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"
    except OSError:  # no file, or an empty one
        return False


def parse_event(line: str | bytes) -> dict[str, Any] | None:
    """The event of a line, or None when the line is not an event."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):  # the code of a user can write into the file
        return None
    return event if isinstance(event, dict) and "kind" in event else None


def metric_number(value: Any) -> float | None:
    """The value of a metric, which can be NaN; None for what is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
