"""Writes and reads the events of a step: one JSON object per line, readable at any time.

Every event has `at` (seconds since the epoch) and `kind`; `KINDS` lists the kinds with their fields.
"""

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

KINDS: Mapping[str, tuple[str, ...]] = {
    "started": ("attempt",),
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


_NO_EVENT: Mapping[str, Any] = {"kind": None}


class EventTail:
    """Follows the events of a step and reads only new lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._metrics_text = ""
        self._seen_warnings: set[str] = set()
        self._pending_warnings: list[dict[str, Any]] = []

    def progress(self) -> dict[str, Any] | None:
        """The latest progress since the last call, with the latest metrics as text."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return None
        complete = data.rfind(b"\n") + 1
        self._offset += complete
        latest: Mapping[str, Any] | None = None
        for line in data[:complete].splitlines():
            event = parse_event(line) or _NO_EVENT
            if event["kind"] == "progress" and event.keys() >= {"done", "total", "unit"}:
                latest = event
            elif event["kind"] == "metrics" and isinstance(event.get("values"), dict):
                self._metrics_text = _format_metrics(event["values"])
            elif event["kind"] == "warning" and event.get("message") not in self._seen_warnings:
                self._seen_warnings.add(str(event.get("message")))
                self._pending_warnings.append(
                    {"reason": str(event.get("message")), "advice": event.get("advice", "")}
                )
        return {**latest, "metrics": self._metrics_text} if latest else None

    def warnings(self) -> list[dict[str, Any]]:
        """The new warnings in the events read so far, each message once."""
        pending, self._pending_warnings = self._pending_warnings, []
        return pending


_SHOWN_METRICS = ("loss", "reward")


def _format_metrics(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name} {value:.4g}" for name, value in _shown_metrics(values).items())


def _shown_metrics(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: values[name] for name in _SHOWN_METRICS if isinstance(values.get(name), int | float)}


_TAIL_BYTES = 256 * 1024  # bytes at the end of a file to search for the last metrics


def last_metrics(path: Path) -> dict[str, float]:
    """The last loss and reward of a training. Reads only the end of the events."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        event = parse_event(line) or _NO_EVENT
        if event["kind"] == "metrics" and isinstance(event.get("values"), dict):
            shown = _shown_metrics(event["values"])
            if shown:
                return shown
    return {}


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events of a step, without a truncated last line.

    An attempt that resumes from a checkpoint repeats the steps after that checkpoint, and an attempt
    that starts over repeats all steps. Only the events of the last execution are returned.
    """
    previous: list[dict[str, Any]] = []
    current: list[dict[str, Any]] = []
    for event in _iter_events(path):
        if event["kind"] == "started":
            previous, current = current, []
        elif event["kind"] == "resumed":
            current = [e for e in previous if e.get("step", 0) <= event["step"]] + current
        current.append(event)
    return current


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
