"""The interface of trackers: the description of a step, and the sink for its metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class TrackedStep:
    """A tracked step. Equal keys identify the same step across runs."""

    recipe: str
    run: str
    step: str
    key: str
    kind: str
    params: Mapping[str, Any]
    # The folder for trackers that write files.
    folder: Path
    # The last optimizer step that was sent to the tracker; -1 when none was.
    last_sent_step: int = -1

    @property
    def name(self) -> str:
        """A readable name that is unique within the recipe."""
        return f"{self.step}-{self.key[:8]}"


class MetricSink(Protocol):
    """Receives the metrics of one step."""

    def log_metrics(self, step: int, values: Mapping[str, float], at: float) -> None:
        """Log metrics at an optimizer step; `at` is the time in seconds since the epoch."""
        ...

    def close(self, *, finished: bool) -> None:
        """Close the sink. A later run can send more metrics of a step that is not finished."""
        ...


def flatten_params(params: Any, prefix: str = "") -> dict[str, str | int | float | bool]:
    """Flatten nested parameters to dotted names."""
    found: dict[str, str | int | float | bool] = {}
    for name, value in params.items():
        if isinstance(value, dict):
            found |= flatten_params(value, f"{prefix}{name}.")
        elif isinstance(value, str | int | float | bool):
            found[f"{prefix}{name}"] = value
        elif value is not None:
            found[f"{prefix}{name}"] = str(value)
    return found
