"""What a report is made from: a run and its steps, read once and never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posttrain.spec.plan import Plan, Step

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of a conversation or an episode."""

    role: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A completion with what the nodes of the reward graph gave for it."""

    step: int
    prompt: str
    completion: str
    values: Mapping[str, Any]
    # Which of several models generated it, where that is known.
    model: str = ""
    # The completion turn by turn, where it has several.
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StepWarning:
    message: str
    advice: str
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class StepEvents:
    """What a step said while it was made."""

    # By name: (optimizer step, value), where a value may be NaN or infinite.
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
    # What the plan expected it to take.
    estimate: Mapping[str, Any] = field(default_factory=dict[str, Any])
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # An eval's metrics for each value of a column, and each model.
    breakdowns: tuple[Mapping[str, Any], ...] = ()
    # Size and digest of the files of the product.
    files: Mapping[str, Any] = field(default_factory=dict[str, Any])
    events: StepEvents = StepEvents()
    # The last lines of the log, where a step did not end well.
    log_tail: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.step.id

    @property
    def display_state(self) -> str:
        """What to show of the step at a glance: of a gate its verdict, of any other its state."""
        verdict = self.facts.get("verdict")
        decided = self.step.kind == "gate" and verdict in ("pass", "fail", "inconclusive")
        return str(verdict) if decided else self.state

    @property
    def seconds(self) -> float | None:
        """How long the step took, here or where it was first made."""
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
    # What could not be read.
    read_errors: tuple[str, ...] = ()
