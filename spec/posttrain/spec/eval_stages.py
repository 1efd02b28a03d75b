"""The verbs that measure and judge: `eval`, `benchmark`, `gate`."""

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
        description="A model, an endpoint, or the stage whose product is measured; a list compares several,"
        " whose metrics are then STAGE.MODEL.METRIC."
    )
    data: str = field(description="A dataset, or one of its parts as NAME.PART.")
    reward: str = field(description="The reward graph that scores.")
    environment: str | None = field(
        default=None, description="The environment to act in: an episode for each row, over several turns."
    )
    prompts: PromptFormat = field(default="auto", description=PROMPTS_DESCRIPTION)
    metrics: dict[Name, Any] = field(
        description="Named metrics: a node (rate or mean by its type), {rate: NODE}, {mean: NODE} or"
        " {pass_at: {node: NODE, k: K}}."
    )
    group_by: list[str] = field(
        default_factory=list[str], description="Columns by whose values each metric is given apart."
    )
    template: str | None = field(default=None, description=TEMPLATE_DESCRIPTION)
    few_shot: FewShot | None = field(default=None, description="Worked examples before each prompt.")
    engine: EngineName = field(default="auto", description=ENGINE_DESCRIPTION)
    sampling: Sampling = field(default_factory=Sampling, description="How completions are drawn.")

    @property
    def model_names(self) -> list[str]:
        """The names of what is measured."""
        return [self.eval] if isinstance(self.eval, str) else self.eval


class Benchmark(Stage):
    """Put lm-eval's tasks to a model: the benchmarks that people quote."""

    benchmark: str | list[str] = field(
        description="A model, an endpoint, or the stage whose product is measured; a list compares several,"
        " whose metrics are then STAGE.MODEL.TASK.METRIC."
    )
    tasks: list[str] = field(
        min_length=1,
        description="Tasks, groups and tags of lm-eval, and files of your own (NAME.yaml). Each gives the"
        " metrics TASK.METRIC, or TASK.METRIC.FILTER.",
    )
    files: list[str] = field(
        default_factory=list[str],
        description="Files that your own tasks need and do not name, such as modules that their Python"
        " imports.",
    )
    num_fewshot: int | None = field(
        default=None, ge=0, le=64, description="Worked examples before each item; else as the task says."
    )
    limit: int | None = field(
        default=None,
        ge=1,
        description="The first so many items of each task; figures to be quoted need all of them.",
    )
    prompts: PromptFormat = field(default="plain", description=PROMPTS_DESCRIPTION)
    batch_size: int = field(default=16, ge=1, description="Requests that are computed together.")
    revisions: dict[str, str] = field(
        default_factory=dict[str, str],
        description="The commits of the tasks' data sets, by ORG/NAME on the hub; `recipe lock` pins branches"
        " and tags. Without them the data may change, and the stage is computed anew in every run.",
    )
    confirm_run_unsafe_code: bool = field(
        default=False,
        description="Whether tasks may run code that is not at hand: programs that the model writes, outside"
        " any sandbox, and metrics from the hub.",
    )

    @property
    def model_names(self) -> list[str]:
        """The names of what is measured."""
        return [self.benchmark] if isinstance(self.benchmark, str) else self.benchmark

    @property
    def sampling(self) -> Sampling:
        """What it asks of memory: tasks say themselves how they sample."""
        return Sampling(batch_size=self.batch_size)


class Condition(Declaration):
    """One condition of a gate. Exactly one of at_least, at_most, better_than is given."""

    metric: str = field(description="STAGE.METRIC of an earlier eval.")
    at_least: float | None = field(default=None, description="The least value.")
    at_most: float | None = field(default=None, description="The greatest value.")
    better_than: str | None = field(default=None, description="STAGE.METRIC to beat, item by item.")
    margin: float = field(
        default=0.0, description="By how much to beat it; below 0 tolerates that much loss."
    )
    confidence: float = field(
        default=0.95, gt=0.5, lt=1, description="How sure the verdict must be: that of its interval."
    )
    min_detectable_effect: float | None = field(
        default=None,
        gt=0,
        description="A distance from the threshold or margin that the gate must be able to tell, four times"
        " in five: whether the data has rows enough for that is checked before anything runs.",
    )
    expected_disagreement: float = field(
        default=0.2,
        gt=0,
        le=1,
        description="For that check of a comparison: the share of rows on which the two will differ.",
    )


class Branch(Declaration):
    """What is done in one case only."""

    run: Name = field(
        description="A stage written after the gate: it, and what is made from it, runs in this case alone."
    )


class Gate(Stage):
    """Hold back every stage written after it until its conditions are shown to hold."""

    gate: list[Condition] = field(min_length=1, description="Conditions; all must hold.")
    correction: Literal["holm", "none"] = field(
        default="holm",
        description="With several conditions: Holm's correction keeps chance from failing one of them. To"
        " pass needs all of them, and so no correction.",
    )
    on_fail: Literal["stop", "warn"] | Branch = field(
        default="stop", description="What a failure does; {run: STAGE} does that instead of what follows."
    )
    on_inconclusive: Literal["stop", "warn", "pass"] | Branch = field(
        default="stop", description="What it does when the data cannot tell; {run: STAGE} as above."
    )
