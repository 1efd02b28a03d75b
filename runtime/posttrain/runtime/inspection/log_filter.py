"""The readable part of a log: its lines without progress bars, and lines for the events of the step."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime.events import metric_number, parse_event

# Bars of tqdm: `Map:  40%|####  | 4/10 [00:01<00:02, 2.9 examples/s]`, and without a total `12it [00:01, `.
_BAR = re.compile(r"\d+%\|[^|]*\| *\S+/\S+ \[\d+:|\b\d+\S*it \[\d+:")


class LogFilter:
    """Removes progress bars from the text of a log that arrives in pieces."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, text: str) -> str:
        """The complete lines; without new text also an incomplete one, as a hanging program leaves it."""
        *lines, self._rest = (self._rest + text).split("\n")
        found = "".join(f"{line}\n" for line in map(_visible_part, lines) if line is not None)
        return found if text else found + self.end()

    def end(self) -> str:
        """The text after the last line feed."""
        line, self._rest = self._rest, ""
        return _visible_part(line) or ""


def _visible_part(line: str) -> str | None:
    """What a terminal shows of a line that carriage returns overwrite; None of a progress bar alone."""
    parts = [part for part in line.split("\r") if part]
    texts = [part for part in parts if not _BAR.search(part)]
    if parts and not texts:
        return None
    return texts[-1] if texts else ""


class EventLines:
    """Reads new events of a step as lines: attempts, metrics, checkpoints, warnings."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> str:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return ""
        complete = data.rfind(b"\n") + 1
        self._offset += complete
        events = filter(None, map(parse_event, data[:complete].splitlines()))
        return "".join(f"{line}\n" for event in events for line in _event_lines(event))


def _event_lines(event: Mapping[str, Any]) -> Iterator[str]:
    match event:
        case {"kind": "started", "attempt": int(attempt)} if attempt > 1:
            yield f"attempt {attempt}"
        case {"kind": "resumed", "step": step}:
            yield f"resumed after step {step}"
        case {"kind": "checkpoint", "step": step}:
            yield f"checkpoint of step {step}"
        case {"kind": "warning", "message": message}:
            yield f"warning: {message}"
        case {"kind": "metrics", "step": step, "values": dict(values)}:
            numbers = {name: metric_number(value) for name, value in values.items() if _is_main(name)}
            shown = (f"{name} {number:.4g}" for name, number in numbers.items() if number is not None)
            yield "  ".join([f"step {step}", *shown])
        case _:
            pass


def _is_main(name: str) -> bool:
    """Whether a metric is one of the main ones. The report has all of them: lengths, costs, deviations."""
    return "/" not in name or name.startswith(("eval/", "reward/"))
