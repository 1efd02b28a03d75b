"""What a tracker gets: the description of a step, and then its metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class TrackedStep:
    """The step whose metrics follow. The same key is the same step, in whichever run it resumes."""

    recipe: str
    run: str
    step: str
    key: str
    kind: str
    params: Mapping[str, Any]
    # Where a tracker that keeps files keeps them.
    folder: Path
    # The last optimizer step that was sent to the tracker before; -1 when none was.
    last_sent_step: int = -1

    @property
    def name(self) -> str:
        """A name that people know it by, and no other step of the recipe has."""
        return f"{self.step}-{self.key[:8]}"


class MetricSink(Protocol):
    """Receives the metrics of one step."""

    def log_metrics(self, step: int, values: Mapping[str, float], at: float) -> None:
        """Metrics at a step; `at` is when they were measured, in seconds since the epoch."""
        ...

    def close(self, *, finished: bool) -> None:
        """No more metrics come now; if the step is not finished, a later run may send more."""
        ...


def flatten_params(params: Any, prefix: str = "") -> dict[str, str | int | float | bool]:
    """Parameters by dotted names, for trackers that show them."""
    found: dict[str, str | int | float | bool] = {}
    for name, value in params.items():
        if isinstance(value, dict):
            found |= flatten_params(value, f"{prefix}{name}.")
        elif isinstance(value, str | int | float | bool):
            found[f"{prefix}{name}"] = value
        elif value is not None:
            found[f"{prefix}{name}"] = str(value)
    return found
