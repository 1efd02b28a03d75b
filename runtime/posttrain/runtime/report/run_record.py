"""The data of a report: immutable records of a run and its steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posttrain.runtime.engines.usage_log import EndpointUsage
from posttrain.spec.plan import Plan, Step

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of a conversation or an episode."""

    role: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A completion with the values of the reward nodes."""

    step: int
    prompt: str
    completion: str
    values: Mapping[str, Any]
    # The model that generated it, when an eval has several and the event names one.
    model: str = ""
    # The turns of the completion, when it has several.
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StepWarning:
    message: str
    advice: str
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class StepEvents:
    """The events of a step, by kind."""

    # By name: (optimizer step, value). A value can be NaN or infinite.
    metrics: Mapping[str, Points] = field(default_factory=dict[str, Points])
    samples: tuple[Sample, ...] = ()
    warnings: tuple[StepWarning, ...] = ()
    checkpoints: tuple[int, ...] = ()
    resumed: tuple[int, ...] = ()
    phases: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    step: Step
    key: str
    state: str
    reason: str = ""
    advice: str = ""
    attempt: int = 0
    began: float | None = None
    ended: float | None = None
    cost: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # The time and memory that the plan estimated.
    estimate: Mapping[str, Any] = field(default_factory=dict[str, Any])
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # The metrics of an eval for each value of a column, and each model.
    breakdowns: tuple[Mapping[str, Any], ...] = ()
    # The size and digest of each file of the product.
    files: Mapping[str, Any] = field(default_factory=dict[str, Any])
    events: StepEvents = StepEvents()
    # The requests and tokens at endpoints, by name, in this run or in the run that created the product.
    api_usage: Mapping[str, EndpointUsage] = field(default_factory=dict[str, EndpointUsage])
    # The last lines of the log of a failed or interrupted step.
    log_tail: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.step.id

    @property
    def display_state(self) -> str:
        """The state to display: the verdict of a gate, the state of any other step."""
        verdict = self.facts.get("verdict")
        decided = self.step.kind == "gate" and verdict in ("pass", "fail", "inconclusive")
        return str(verdict) if decided else self.state

    @property
    def seconds(self) -> float | None:
        """The duration of the step in this run, or in the run that created its product."""
        if self.began is not None and self.ended is not None and self.ended >= self.began:
            return self.ended - self.began
        found = self.cost.get("seconds")
        return found if isinstance(found, int | float) else None


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    name: str
    plan: Plan
    recipe: str
    began: float | None
    ended: float | None
    result: str | None
    steps: tuple[StepRecord, ...]
    # Messages about records that could not be read.
    read_errors: tuple[str, ...] = ()
