"""The verbs that evaluate models: `eval`, `benchmark`, `gate`."""

from typing import Any, Literal

from posttrain.spec.declaration_fields import Declaration, field
from posttrain.spec.field_types import Name
from posttrain.spec.inference import (
    ENGINE_DESCRIPTION,
    PROMPTS_DESCRIPTION,
    TEMPLATE_DESCRIPTION,
    EngineName,
    FewShot,
    PromptFormat,
    Sampling,
)
from posttrain.spec.stage import Stage


class Evaluate(Stage):
    """Sample completions on data and score them."""

    eval: str | list[str] = field(
        description="Model, endpoint or stage to evaluate. A list compares several; their metrics are named"
        " STAGE.MODEL.METRIC."
    )
    data: str = field(description="Rows with the prompts: a dataset, or one of its parts as NAME.PART.")
    reward: str = field(description="Reward graph that scores the completions.")
    environment: str | None = field(
        default=None, description="Environment for multi-turn episodes, one episode per row."
    )
    prompts: PromptFormat = field(default="auto", description=PROMPTS_DESCRIPTION)
    metrics: dict[Name, Any] = field(
        description="Named metrics: a node (rate or mean, depending on its type), {rate: NODE}, {mean:"
        " NODE} or {pass_at: {node: NODE, k: K}}."
    )
    group_by: list[str] = field(
        default_factory=list[str],
        description="Columns to group by: each metric is also reported for every value of these columns.",
    )
    template: str | None = field(default=None, description=TEMPLATE_DESCRIPTION)
    few_shot: FewShot | None = field(default=None, description="Few-shot examples before each prompt.")
    engine: EngineName = field(default="auto", description=ENGINE_DESCRIPTION)
    sampling: Sampling = field(default_factory=Sampling, description="Sampling parameters.")

    @property
    def model_names(self) -> list[str]:
        """The names of the evaluated models."""
        return [self.eval] if isinstance(self.eval, str) else self.eval


class Benchmark(Stage):
    """Evaluate a model on lm-eval tasks, for scores that compare with published ones."""

    benchmark: str | list[str] = field(
        description="Model, endpoint or stage to evaluate. A list compares several; their metrics are named"
        " STAGE.MODEL.TASK.METRIC."
    )
    tasks: list[str] = field(
        min_length=1,
        description="Tasks, groups and tags of lm-eval, and task files of your own (NAME.yaml). Their metrics"
        " are named TASK.METRIC or TASK.METRIC.FILTER.",
    )
    files: list[str] = field(
        default_factory=list[str],
        description="Additional files that your own tasks need, such as Python modules that they import.",
    )
    num_fewshot: int | None = field(
        default=None, ge=0, le=64, description="Few-shot examples per item. Default: the task's own number."
    )
    limit: int | None = field(
        default=None,
        ge=1,
        description="Evaluate only the first N items of each task. Use it for tests, not for published"
        " scores.",
    )
    prompts: PromptFormat = field(default="plain", description=PROMPTS_DESCRIPTION)
    batch_size: int = field(default=16, ge=1, description="Requests per batch.")
    revisions: dict[str, str] = field(
        default_factory=dict[str, str],
        description="Commits of the tasks' data sets, by ORG/NAME on the hub. `recipe lock` pins branches and"
        " tags. Without revisions the data can change, so every run computes the stage again.",
    )
    confirm_run_unsafe_code: bool = field(
        default=False,
        description="Whether tasks may run untrusted code: programs that the model generates, outside any"
        " sandbox, and metrics from the hub.",
    )

    @property
    def model_names(self) -> list[str]:
        """The names of the evaluated models."""
        return [self.benchmark] if isinstance(self.benchmark, str) else self.benchmark

    @property
    def sampling(self) -> Sampling:
        """The batch size for memory estimates. Tasks define their own sampling."""
        return Sampling(batch_size=self.batch_size)


class Condition(Declaration):
    """One condition of a gate. Set exactly one of `at_least`, `at_most` and `better_than`."""

    metric: str = field(description="Metric of an earlier eval, as STAGE.METRIC.")
    at_least: float | None = field(default=None, description="Minimum value of the metric.")
    at_most: float | None = field(default=None, description="Maximum value of the metric.")
    better_than: str | None = field(
        default=None, description="Metric to exceed, as STAGE.METRIC. The items are compared in pairs."
    )
    margin: float = field(
        default=0.0,
        description="Minimum improvement over `better_than`. A negative margin tolerates a loss of that"
        " size.",
    )
    confidence: float = field(
        default=0.95, gt=0.5, lt=1, description="Confidence level of the interval that decides the condition."
    )
    min_detectable_effect: float | None = field(
        default=None,
        gt=0,
        description="Distance from the threshold or margin that the gate must detect with a power of 0.8. The"
        " compiler checks that the data has enough rows for it.",
    )
    expected_disagreement: float = field(
        default=0.2,
        gt=0,
        le=1,
        description="Expected share of rows on which the two models differ. `min_detectable_effect` uses it"
        " for comparisons with `better_than`.",
    )


class Branch(Declaration):
    """A stage that runs only for one outcome of a gate."""

    run: Name = field(
        description="Stage after the gate. It runs only for this outcome, and so do the stages that read its"
        " product."
    )


class Gate(Stage):
    """Block every stage written after it unless metrics of earlier evals meet its conditions."""

    gate: list[Condition] = field(min_length=1, description="Conditions; all must hold.")
    correction: Literal["holm", "none"] = field(
        default="holm",
        description="Correction for multiple conditions. `holm` limits the probability that one of them fails"
        " by chance. A pass needs no correction, because all conditions must hold.",
    )
    on_fail: Literal["stop", "warn"] | Branch = field(
        default="stop",
        description="Action if the gate fails. {run: STAGE} runs that stage instead of the stages after the"
        " gate.",
    )
    on_inconclusive: Literal["stop", "warn", "pass"] | Branch = field(
        default="stop",
        description="Action if the data is inconclusive. {run: STAGE} runs that stage instead of the stages"
        " after the gate.",
    )
