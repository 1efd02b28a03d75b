"""The verbs that evaluate models: `eval`, `benchmark`, `gate`."""

from typing import Any, Literal

from pydantic import Field

from posttrain.spec.declaration_fields import Declaration
from posttrain.spec.field_types import Items, Name
from posttrain.spec.inference import (
    ENGINE_DESCRIPTION,
    PROMPTS_DESCRIPTION,
    TEMPLATE_DESCRIPTION,
    TEMPLATE_KWARGS_DESCRIPTION,
    EngineName,
    FewShot,
    PromptFormat,
    Sampling,
)
from posttrain.spec.stage import Stage


class Evaluate(Stage):
    """Sample completions on data and score them."""

    eval: str | Items[str] = Field(
        description="Model, endpoint or stage to evaluate. A list compares several; their metrics are named"
        " STAGE.MODEL.METRIC."
    )
    data: str = Field(description="Rows with the prompts: a dataset, or one of its parts as NAME.PART.")
    reward: str = Field(description="Reward graph that scores the completions.")
    environment: str | None = Field(
        default=None, description="Environment for multi-turn episodes, one episode per row."
    )
    prompts: PromptFormat = Field(default="auto", description=PROMPTS_DESCRIPTION)
    chat_template_kwargs: dict[str, Any] = Field(
        default_factory=dict[str, Any], description=TEMPLATE_KWARGS_DESCRIPTION
    )
    metrics: dict[Name, Any] = Field(
        description="Named metrics: a node (rate or mean, depending on its type), {rate: NODE}, {mean:"
        " NODE} or {pass_at: {node: NODE, k: K}}."
    )
    group_by: Items[str] = Field(
        default=(),
        description="Columns to group by: each metric is also reported for every value of these columns.",
    )
    template: str | None = Field(default=None, description=TEMPLATE_DESCRIPTION)
    few_shot: FewShot | None = Field(default=None, description="Few-shot examples before each prompt.")
    engine: EngineName = Field(default="auto", description=ENGINE_DESCRIPTION)
    sampling: Sampling = Field(default_factory=Sampling, description="Sampling parameters.")

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names of the evaluated models."""
        return (self.eval,) if isinstance(self.eval, str) else self.eval


class Benchmark(Stage):
    """Evaluate a model on lm-eval tasks, for scores that compare with published ones."""

    benchmark: str | Items[str] = Field(
        description="Model, endpoint or stage to evaluate. A list compares several; their metrics are named"
        " STAGE.MODEL.TASK.METRIC."
    )
    tasks: Items[str] = Field(
        min_length=1,
        description="Tasks, groups and tags of lm-eval, and task files of your own (NAME.yaml). Their metrics"
        " are named TASK.METRIC or TASK.METRIC.FILTER.",
    )
    files: Items[str] = Field(
        default=(),
        description="Additional files that your own tasks need, such as Python modules that they import.",
    )
    num_fewshot: int | None = Field(
        default=None, ge=0, le=64, description="Few-shot examples per item. Default: the task's own number."
    )
    limit: int | None = Field(
        default=None,
        ge=1,
        description="Evaluate only the first N items of each task. Use it for tests, not for published"
        " scores.",
    )
    prompts: PromptFormat = Field(default="plain", description=PROMPTS_DESCRIPTION)
    batch_size: int = Field(default=16, ge=1, description="Requests per batch.")
    revisions: dict[str, str] = Field(
        default_factory=dict[str, str],
        description="Commits of the tasks' data sets, by ORG/NAME on the hub. `recipe lock` pins branches and"
        " tags. Without revisions the data can change, so every run computes the stage again.",
    )
    confirm_run_unsafe_code: bool = Field(
        default=False,
        description="Whether tasks may run untrusted code: programs that the model generates, outside any"
        " sandbox, and metrics from the hub.",
    )

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names of the evaluated models."""
        return (self.benchmark,) if isinstance(self.benchmark, str) else self.benchmark

    @property
    def sampling(self) -> Sampling:
        """The batch size for memory estimates. Tasks define their own sampling."""
        return Sampling(batch_size=self.batch_size)


class Condition(Declaration):
    """One condition of a gate. Set exactly one of `at_least`, `at_most` and `better_than`."""

    metric: str = Field(
        description="Metric of an earlier eval, or of a training stage on held-out rows, as STAGE.METRIC."
    )
    at_least: float | None = Field(default=None, description="Minimum value of the metric.")
    at_most: float | None = Field(default=None, description="Maximum value of the metric.")
    better_than: str | None = Field(
        default=None,
        description="Metric to exceed, as STAGE.METRIC; a loss must be lower. The items are compared in"
        " pairs.",
    )
    margin: float = Field(
        default=0.0,
        description="Minimum improvement over `better_than`. A negative margin tolerates a loss of that"
        " size.",
    )
    confidence: float = Field(
        default=0.95, gt=0.5, lt=1, description="Confidence level of the interval that decides the condition."
    )
    min_detectable_effect: float | None = Field(
        default=None,
        gt=0,
        description="Distance from the threshold or margin that the gate must detect with a power of 0.8. The"
        " compiler checks that the data has enough rows for it.",
    )
    expected_disagreement: float = Field(
        default=0.2,
        gt=0,
        le=1,
        description="Expected share of rows on which the two models differ. `min_detectable_effect` uses it"
        " for comparisons with `better_than`.",
    )


class Branch(Declaration):
    """A stage that runs only for one outcome of a gate."""

    run: Name = Field(
        description="Stage after the gate. It runs only for this outcome, and so do the stages that read its"
        " product."
    )


class Gate(Stage):
    """Block every later stage, except those that it needs, unless metrics of evals meet its conditions."""

    gate: Items[Condition] = Field(min_length=1, description="Conditions; all must hold.")
    correction: Literal["holm", "none"] = Field(
        default="holm",
        description="Correction for multiple conditions. `holm` limits the probability that one of them fails"
        " by chance. A pass needs no correction, because all conditions must hold.",
    )
    on_fail: Literal["stop", "warn"] | Branch = Field(
        default="stop",
        description="Action if the gate fails. {run: STAGE} runs that stage instead of the stages after the"
        " gate.",
    )
    on_inconclusive: Literal["stop", "warn", "pass"] | Branch = Field(
        default="stop",
        description="Action if the data is inconclusive. {run: STAGE} runs that stage instead of the stages"
        " after the gate.",
    )
