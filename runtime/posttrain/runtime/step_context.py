"""The context of a step: its parameters, its inputs, its output folder and its events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from posttrain.runtime.events import EventWriter
from posttrain.spec.plan import Step

if TYPE_CHECKING:
    # Code that does not read the parameters writes `StepContext` alone.
    from typing_extensions import TypeVar as DefaultTypeVar

    ParamsT = DefaultTypeVar("ParamsT", covariant=True, default=Any)
else:
    ParamsT = TypeVar("ParamsT", covariant=True)


@dataclass
class StopRequest:
    """A request to save the state of the step and exit."""

    requested: bool = False


@dataclass(frozen=True, kw_only=True)
class StepContext(Generic[ParamsT]):
    step: Step
    # The parameters of the step, parsed with the model of its kind.
    params: ParamsT
    # The folders of the input products, by role.
    inputs: Mapping[str, Path]
    # Copies of the user's files, by role, as of the start of the run.
    files: Mapping[str, Path]
    # The folder of the product; empty at the start of the step.
    out: Path
    # The folder for state from which a later attempt resumes.
    work: Path
    events: EventWriter
    stop: StopRequest = field(default_factory=StopRequest)
    # The folder of the attempt, in the first process of a step on several nodes.
    attempt: Path | None = None
    # Facts about the product that the manifest records.
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def checkpoints(self) -> Path:
        return self.work / "checkpoints"

    def part(self, role: str) -> str | None:
        return self.step.inputs[role].part
