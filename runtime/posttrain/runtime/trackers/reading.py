"""Reads a step's figures from its events, as they come and wherever they lie by then."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.runtime import durable
from posttrain.runtime.keeping.home import Home

EVENTS = "events.jsonl"


@dataclass(frozen=True, slots=True)
class Point:
    """Figures at a step. `place` orders the points of a step under way: an attempt that goes on from a
    checkpoint makes the same ones again, in the same places."""

    place: tuple[int, int]
    values: Mapping[str, float]
    at: float


class Reading:
    """Follows the events of one step."""

    def __init__(self, home: Home, key: str) -> None:
        self._product = home.store.root / key
        self._work = home.work(key)
        self._offset = 0
        self._seen: Counter[int] = Counter()
        self.last = (0, 0.0)  # the newest step with figures, and when it was

    @property
    def finished(self) -> bool:
        return (self._product / "manifest.json").exists()

    def new(self) -> Iterator[Point]:
        """The points since the last call."""
        for event in self._lines():
            if event["kind"] == "started":
                self._seen.clear()
            elif event["kind"] == "metrics":
                step = event["step"]
                self._seen[step] += 1
                self.last = (max(step, self.last[0]), event["at"])
                yield Point((step, self._seen[step]), _numbers(event["values"]), event["at"])

    def final(self) -> tuple[int, dict[str, float], float]:
        """What a finished step has to say as a whole: its metrics, what it took."""
        manifest = durable.read_json(self._product / "manifest.json") or {}
        found: dict[str, float] = {}
        for name, metric in manifest.get("facts", {}).get("metrics", {}).items():
            shown = {f"eval/{name}": "value", f"eval/{name}/low": "low", f"eval/{name}/high": "high"}
            found |= {tag: metric[part] for tag, part in shown.items() if metric[part] is not None}
        found |= {f"cost/{name}": value for name, value in manifest.get("cost", {}).items()}
        step, at = self.last
        return step, _numbers(found), at or self._made()

    def _made(self) -> float:
        try:
            return (self._product / "manifest.json").stat().st_mtime
        except OSError:
            return 0.0

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            data = self._read()
        except OSError:
            return
        whole = data.rfind(b"\n") + 1
        self._offset += whole
        for line in data[:whole].splitlines():
            event = _parsed(line)
            if event is not None:
                yield event

    def _read(self) -> bytes:
        folder = self._product if self.finished else self._work
        with (folder / "record" / EVENTS).open("rb") as file:
            if file.seek(0, 2) < self._offset:  # the step was begun anew
                self._offset = 0
            file.seek(self._offset)
            return file.read()


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "kind" in event else None


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
