"""Parameters of the steps that evaluate: `eval`, `benchmark`, `gate`."""

from collections.abc import Mapping
from typing import Literal

from posttrain.spec.canonical_json import Json
from posttrain.spec.document import Document
from posttrain.spec.field_types import Items, Pair
from posttrain.spec.step_params.generation_params import GenerationParams, SamplingOptions
from posttrain.spec.step_params.reward_params import EnvironmentParams, RewardGraphParams
from posttrain.spec.step_params.step_parameters import Number, StepParams, omitted, omitted_if_empty

MetricKind = Literal["rate", "mean", "pass_at"]


class MetricDefinition(Document):
    """A metric over the values of a node."""

    kind: MetricKind
    node: str
    # The range of a mean, if it is finite.
    range: Pair[Number] | None = omitted()
    # The number of completions of pass@k.
    k: int | None = omitted()


class EvalStepParams(GenerationParams):
    """Parameters of an eval, as a step or in a training loop."""

    reward: RewardGraphParams
    metrics: Mapping[str, MetricDefinition]
    # Whether the names of metrics start with the name of the model.
    multiple_models: bool
    group_by: Items[str]
    sampling: SamplingOptions
    environment: EnvironmentParams | None = omitted()
    # Parameters of the environment that do not affect the episodes.
    hosting: Mapping[str, Json] | None = omitted()


class BenchmarkTask(Document):
    """A task of lm-eval, or a task file of the user."""

    name: str
    file: str | None


class TaskGroup(Document):
    """A group of tasks, with the metrics that lm-eval aggregates over it."""

    tasks: Items[str]
    metrics: Items[str]


class BenchmarkStepParams(GenerationParams):
    """Parameters of a benchmark."""

    multiple_models: bool
    tasks: Items[BenchmarkTask]
    groups: Mapping[str, TaskGroup]
    metrics: Mapping[str, MetricDefinition]
    num_fewshot: int | None
    limit: int | None
    batch_size: int
    # Commits of the tasks' data sets, by name on the hub.
    revisions: Mapping[str, str]
    confirm_run_unsafe_code: bool


class MetricReference(Document):
    """A metric of an eval."""

    eval: str
    name: str


ConditionKind = Literal["at_least", "at_most", "better_than"]


class GateCondition(Document):
    """A condition of a gate: a threshold, or a comparison with another metric."""

    kind: ConditionKind
    metric: MetricReference
    baseline: MetricReference | None
    threshold: float | None
    margin: float
    confidence: float
    text: str
    # Whether the metric improves as it falls, as a loss does.
    lower_is_better: bool = omitted_if_empty(False)


class BranchStages(Document):
    """The stages that run for one outcome of a gate."""

    run: Items[str]


class GateStepParams(StepParams):
    """Parameters of a gate."""

    conditions: Items[GateCondition]
    correction: Literal["holm", "none"]
    on_fail: Literal["stop", "warn"] | BranchStages
    on_inconclusive: Literal["stop", "warn", "pass"] | BranchStages
    seed: int
