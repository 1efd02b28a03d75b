"""Follows the events of a step: reads what was appended, in bounded memory and in bounded time.

`read_step_events` of the report reads the whole file, which takes seconds for millions of points.
"""

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime.events import metric_number, parse_event
from posttrain.runtime.report.events_reader import is_eval, make_sample
from posttrain.runtime.report.number_format import finite_or_none, mapping_or_empty
from posttrain.runtime.report.redaction import redact
from posttrain.runtime.report.run_record import Sample, StepEvents, StepWarning
from posttrain.runtime.report.step_sums import ProgressSums, StepProgress, rising_sums
from posttrain.runtime.ui.curve_buckets import CurveBuckets

_PIECE_BYTES = 1 << 20
_PROGRESS = b'"kind": "progress"'
_KIND_END = 64  # the kind of an event is in the first bytes of its line
_MAX_STEP = 1e15
# Limits for events that a step writes without end.
_MAX_METRICS, _MAX_SAMPLES, _MAX_WARNINGS, _MAX_MARKS = 2_000, 300, 200, 10_000


class _Execution:
    """The events since a step started, as the report shows them."""

    def __init__(self) -> None:
        self.metrics: dict[str, CurveBuckets] = {}
        self.samples: deque[Sample] = deque(maxlen=_MAX_SAMPLES)
        self.warnings: dict[tuple[str, str], int] = {}
        self.checkpoints: set[int] = set()
        self.resumed: set[int] = set()
        self.evals: set[int] = set()
        self.phases: deque[tuple[str, float]] = deque(maxlen=_MAX_MARKS)
        self.sums = ProgressSums()
        self.seconds, self.tokens = CurveBuckets(), CurveBuckets()

    @property
    def has_steps(self) -> bool:
        """Whether it got past loading: else a checkpoint is that of the execution before it."""
        return bool(self.metrics or self.checkpoints or self.resumed or self.samples)

    def resumed_from(self, previous: "_Execution", step: float) -> "_Execution":
        """What the previous execution did until a step, and what this one has done since its start."""
        found = _Execution()
        found.metrics = {name: curve.truncated(step) for name, curve in previous.metrics.items()}
        for name, curve in self.metrics.items():
            for at, value in curve.points():
                found.metrics.setdefault(name, CurveBuckets()).add(at, value)
        found.samples.extend(one for one in previous.samples if one.step <= step)
        found.samples.extend(self.samples)
        found.warnings = dict(Counter(previous.warnings) + Counter(self.warnings))
        found.checkpoints = {at for at in previous.checkpoints if at <= step} | self.checkpoints
        found.resumed = {at for at in previous.resumed if at <= step} | self.resumed | {int(step)}
        found.evals = {at for at in previous.evals if at <= step} | self.evals
        found.phases.extend((*previous.phases, *self.phases))
        found.seconds, found.tokens = previous.seconds.truncated(step), previous.tokens.truncated(step)
        found.sums = self.sums
        found.sums.resume(previous.sums, _last_sum(found.tokens))
        return found

    def add_progress(self, event: Mapping[str, Any]) -> None:
        passed, used = self.sums.add(event)
        step = finite_or_none(event.get("step"))
        if passed is None or step is None or abs(step) > _MAX_STEP:
            return
        self.seconds.add(step, passed)
        if used is not None:
            self.tokens.add(step, used)


def _last_sum(curve: CurveBuckets) -> float:
    return max((total for _, total in curve.points()), default=0.0)


class EventFollower:
    """The events of a step. `read` goes on where it ended; several threads can use it."""

    def __init__(self, path: Path, secrets: tuple[str, ...], *, episodes: bool) -> None:
        self._path, self._secrets, self._episodes = path, secrets, episodes
        self._lock = threading.Lock()
        self._restart(None)

    def _restart(self, identity: tuple[int, int] | None) -> None:
        self._identity = identity
        self._offset, self._size = 0, 0
        self._rest = b""
        self._previous, self._current = _Execution(), _Execution()

    @property
    def unread(self) -> tuple[int, int]:
        """The bytes that are not read yet, and the size of the file."""
        return max(0, self._size - self._offset), self._size

    def read(self, deadline: float) -> None:
        """Read new events until the end of the file, or until a time of the monotonic clock."""
        while self._read_piece() and time.monotonic() < deadline:
            pass

    def _read_piece(self) -> bool:
        """Read some events. Whether there are more."""
        with self._lock:
            try:
                piece = self._next_piece()
            except OSError:
                self._size = self._offset
                return False
            *lines, self._rest = (self._rest + piece).split(b"\n")
            for line in lines:
                self._add_line(line)
            return self._offset < self._size

    def _next_piece(self) -> bytes:
        with self._path.open("rb") as file:
            about = os.fstat(file.fileno())
            identity = (about.st_dev, about.st_ino)
            if identity != self._identity or about.st_size < self._offset:
                self._restart(identity)
            file.seek(self._offset)
            piece = file.read(_PIECE_BYTES)
            self._offset += len(piece)
            self._size = max(self._offset, about.st_size)
            return piece

    def events(self) -> StepEvents:
        with self._lock:
            return self._step_events(self._current)

    def _step_events(self, found: _Execution) -> StepEvents:
        return StepEvents(
            metrics={name: curve.points() for name, curve in found.metrics.items()},
            samples=tuple(found.samples),
            warnings=tuple(
                StepWarning(message=message, advice=advice, count=count)
                for (message, advice), count in found.warnings.items()
            ),
            checkpoints=tuple(sorted(found.checkpoints)),
            resumed=tuple(sorted(found.resumed)),
            evals=tuple(sorted(found.evals)),
            progress=StepProgress(
                seconds=rising_sums(found.seconds.points()), tokens=rising_sums(found.tokens.points())
            ),
            phases=tuple(found.phases),
        )

    def _add_line(self, line: bytes) -> None:
        if _PROGRESS in line[:_KIND_END]:  # most lines; `last_progress` reads the last ones
            return
        event = parse_event(line)
        if event is None:
            return
        match event["kind"]:
            case "metrics":
                self._add_metrics(event)
            case "started":
                if self._current.has_steps:
                    self._previous = self._current
                self._current = _Execution()
            case "resumed":
                step = finite_or_none(event.get("step"))
                self._current = self._current.resumed_from(self._previous, step or 0.0)
            case _:
                self._add_mark(event)
        self._current.add_progress(event)

    def _add_metrics(self, event: Mapping[str, Any]) -> None:
        step = finite_or_none(event.get("step"))
        if step is None or abs(step) > _MAX_STEP:
            return
        metrics = self._current.metrics
        if is_eval(event) and len(self._current.evals) < _MAX_MARKS:
            self._current.evals.add(int(step))
        for name, value in mapping_or_empty(event.get("values")).items():
            number = metric_number(value)
            if number is None:
                continue
            curve = metrics.get(name)
            if curve is None:
                if len(metrics) >= _MAX_METRICS:
                    continue
                curve = metrics[name] = CurveBuckets()
            curve.add(step, number)

    def _add_mark(self, event: Mapping[str, Any]) -> None:
        """A sample, a warning, a checkpoint or a phase."""
        found = self._current
        match event["kind"]:
            case "sample":
                found.samples.append(make_sample(redact(event, self._secrets), self._episodes))
            case "warning":
                shown = redact(event, self._secrets)
                warning = (str(shown.get("message") or ""), str(shown.get("advice") or ""))
                if warning in found.warnings or len(found.warnings) < _MAX_WARNINGS:
                    found.warnings[warning] = found.warnings.get(warning, 0) + 1
            case "checkpoint" if len(found.checkpoints) < _MAX_MARKS:
                step = finite_or_none(event.get("step"))
                found.checkpoints.add(0 if step is None else int(step))
            case "phase":
                at = finite_or_none(event.get("at"))
                if at is not None:
                    found.phases.append((str(event.get("name")), at))
            case _:
                pass
