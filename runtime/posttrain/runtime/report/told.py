"""Reads what a step said of itself: its events, once, and the end of its log."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime.events import read_events
from posttrain.runtime.report.figures import finite, table_of
from posttrain.runtime.report.record import Events, Points, Sample, Warned
from posttrain.runtime.report.redaction import hidden

_LOG_LINES = 20
_LOG_BYTES = 16_000


def events_of(path: Path, secrets: tuple[str, ...]) -> Events:
    """The events of a step by kind. ValueError when the file holds something else."""
    by_kind: dict[str, list[dict[str, Any]]] = {}
    try:
        for event in read_events(path):
            by_kind.setdefault(str(event["kind"]), []).append(event)
    except (OSError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error
    return Events(
        figures=_figures(by_kind.get("metrics", ())),
        samples=tuple(_sample(hidden(event, secrets)) for event in by_kind.get("sample", ())),
        warnings=_warnings(hidden(event, secrets) for event in by_kind.get("warning", ())),
        checkpoints=_steps(by_kind.get("checkpoint", ())),
        resumed=_steps(by_kind.get("resumed", ())),
        phases=_phases(by_kind.get("phase", ())),
    )


def _figures(events: Iterable[Mapping[str, Any]]) -> dict[str, Points]:
    """Each figure over the optimizer steps; of two values at one step the later counts."""
    found: dict[str, dict[float, float]] = {}
    for event in events:
        step = finite(event.get("step"))
        if step is None:
            continue
        for name, value in table_of(event.get("values")).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault(str(name), {})[step] = _as_float(value)
    return {name: tuple(sorted(points.items())) for name, points in found.items()}


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _sample(event: Mapping[str, Any]) -> Sample:
    return Sample(
        step=_step(event),
        prompt=str(event.get("prompt") or ""),
        completion=str(event.get("completion") or ""),
        values=table_of(event.get("values")),
    )


def _warnings(events: Iterable[Mapping[str, Any]]) -> tuple[Warned, ...]:
    found: dict[tuple[str, str], int] = {}
    for event in events:
        said = (str(event.get("message") or ""), str(event.get("advice") or ""))
        found[said] = found.get(said, 0) + 1
    return tuple(Warned(message=said[0], advice=said[1], count=n) for said, n in found.items())


def _phases(events: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, float], ...]:
    timed = [(str(event.get("name")), finite(event.get("at"))) for event in events]
    return tuple((name, at) for name, at in timed if at is not None)


def _steps(events: Iterable[Mapping[str, Any]]) -> tuple[int, ...]:
    return tuple(sorted({_step(event) for event in events}))


def _step(event: Mapping[str, Any]) -> int:
    found = finite(event.get("step"))
    return 0 if found is None else int(found)


def log_end(path: Path, secrets: tuple[str, ...]) -> tuple[str, ...]:
    """The last lines of a log; none when there is no log."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _LOG_BYTES))
            data = file.read()
    except OSError:
        return ()
    lines = data.decode("utf-8", "replace").rstrip().splitlines()[-_LOG_LINES:]
    return tuple(hidden(line, secrets) for line in lines)
