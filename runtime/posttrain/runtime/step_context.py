"""What a step's code is given: its parameters, its inputs, where to write, and how to report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain.runtime.events import EventWriter
from posttrain.spec.plan import Step


@dataclass
class StopRequest:
    """Set when the step is asked to save its state and end."""

    requested: bool = False


@dataclass(frozen=True, kw_only=True)
class StepContext:
    step: Step
    # The folders of the products that the step reads, by role.
    inputs: Mapping[str, Path]
    # The user's files, by role, as they were when the run began.
    files: Mapping[str, Path]
    # Where the product goes; empty when the step starts.
    out: Path
    # Where the step may keep what a later attempt goes on from.
    work: Path
    events: EventWriter
    stop: StopRequest = field(default_factory=StopRequest)
    # Facts about the product that the manifest records.
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def params(self) -> Any:
        return self.step.params

    @property
    def checkpoints(self) -> Path:
        return self.work / "checkpoints"

    def part(self, role: str) -> str | None:
        return self.step.inputs[role].part
