"""Follows the metrics of a step in its events, in the working directory or in the store."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from posttrain.runtime.events import parse_event
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.product_outline import read_product_outline

EVENTS_FILE = "events.jsonl"


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """Metrics at an optimizer step. `sequence` orders the points: an attempt that resumes from a checkpoint
    repeats points with the same sequence."""

    sequence: tuple[int, int]
    values: Mapping[str, float]
    at: float


class MetricsReader:
    """Follows the events of one step."""

    def __init__(self, home: Home, key: str) -> None:
        self._product = home.store.root / key
        self._work = home.workdir(key)
        self._offset = 0
        self._seen: Counter[int] = Counter()
        self.last_point = (0, 0.0)  # the newest step with metrics, and its time

    @property
    def finished(self) -> bool:
        return (self._product / "manifest.json").exists()

    def new_points(self) -> Iterator[MetricPoint]:
        """The points since the last call."""
        for event in self._new_events():
            if event["kind"] == "started":
                self._seen.clear()
            elif event["kind"] == "metrics" and (point := self._point(event)) is not None:
                yield point

    def _point(self, event: Mapping[str, Any]) -> MetricPoint | None:
        """The point of an event; None if the event is damaged."""
        step, values, at = (event.get(name) for name in ("step", "values", "at"))
        if not isinstance(step, int) or not isinstance(values, dict) or not isinstance(at, int | float):
            return None
        self._seen[step] += 1
        self.last_point = (max(step, self.last_point[0]), at)
        numbers = _numeric_values(cast(Mapping[str, Any], values))
        return MetricPoint((step, self._seen[step]), numbers, at)

    def summary_point(self) -> tuple[int, dict[str, float], float]:
        """The summary of a finished step: its eval metrics and its cost."""
        outline = read_product_outline(self._product)
        found: dict[str, float] = {}
        for name, metric in outline.facts.get("metrics", {}).items() if outline else ():
            tag = f"eval/{name.removeprefix('eval_')}"  # of a training stage, like its curves
            shown = {tag: "value", f"{tag}/low": "low", f"{tag}/high": "high"}
            found |= {key: metric[part] for key, part in shown.items() if metric[part] is not None}
        found |= {f"cost/{name}": value for name, value in outline.cost.items()} if outline else {}
        step, at = self.last_point
        return step, _numeric_values(found), at or self._manifest_time()

    def _manifest_time(self) -> float:
        try:
            return (self._product / "manifest.json").stat().st_mtime
        except OSError:
            return 0.0

    def _new_events(self) -> Iterator[dict[str, Any]]:
        try:
            data = self._read_new()
        except OSError:
            return
        complete = data.rfind(b"\n") + 1
        self._offset += complete
        for line in data[:complete].splitlines():
            event = parse_event(line)
            if event is not None:
                yield event

    def _read_new(self) -> bytes:
        folder = self._product if self.finished else self._work
        with (folder / "record" / EVENTS_FILE).open("rb") as file:
            if file.seek(0, 2) < self._offset:  # the step started over
                self._offset = 0
            file.seek(self._offset)
            return file.read()


def _numeric_values(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
