"""The data of a report: immutable records of a run and its steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain.runtime.engines.usage_log import EndpointUsage
from posttrain.runtime.report.step_sums import StepProgress
from posttrain.spec.plan import Plan, Step

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    name: str
    # As JSON.
    arguments: str


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of a conversation or an episode."""

    role: str
    text: str
    calls: tuple[ToolCall, ...] = ()
    # The reasoning before the text, if the message has it apart.
    reasoning: str = ""


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
    # The turns of a prompt that is a list of messages.
    prompt_turns: tuple[Turn, ...] = ()
    # `right`, `wrong` or `unscored`, when it is known.
    outcome: str | None = None
    # The number of its row in the data, from 0.
    item: int | None = None
    # Its name in links: unique in the stage.
    name: str = ""
    # The other columns of the row, such as the answer.
    reference: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # Why a node has its value, by node.
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    # The completion of an earlier model for the same row, and the stage that it is from.
    before: "Sample | None" = None
    stage: str = ""


@dataclass(frozen=True, kw_only=True)
class SearchRow:
    """The start of the texts of a completion that has no card, for the search."""

    item: int
    model: str
    outcome: str | None
    prompt: str
    completion: str
    # The other columns of the row, as JSON.
    reference: str


@dataclass(frozen=True, kw_only=True)
class CompletionSamples:
    """The completions of an eval that are shown, failures and changes first, and the numbers of all."""

    samples: tuple[Sample, ...]
    # By outcome.
    counts: Mapping[str, int]
    # Those with another outcome than the earlier completion of the same row.
    changed: int
    total: int
    # Those of the others that the search finds; the first rows, if there are too many.
    search_rows: tuple[SearchRow, ...] = ()


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
    # Steps with an evaluation during training.
    evals: tuple[int, ...] = ()
    phases: tuple[tuple[str, float], ...] = ()
    progress: StepProgress = field(default_factory=StepProgress)


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
    # The folder of the product's files.
    folder: Path | None = None
    # The size and digest of each file of the product.
    files: Mapping[str, Any] = field(default_factory=dict[str, Any])
    events: StepEvents = StepEvents()
    # Of an eval with a product.
    completions: CompletionSamples | None = None
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
    # Whether a client runs it now. A report is written at the end.
    is_running: bool = False
