"""The verbs of a recipe: each stage is one of these, known by its first key."""

from typing import Any, Literal

from posttrain.spec.asking import (
    ENGINE,
    PROMPTS,
    TEMPLATE,
    Above,
    Dialogue,
    Engine,
    Prompts,
    Sampling,
    Shots,
)
from posttrain.spec.declared import Declaration, field
from posttrain.spec.recipe import (
    Adapter,
    Container,
    Dataset,
    Endpoint,
    Environment,
    Hardware,
    Model,
    Name,
    Placement,
    Retry,
    Reward,
    Scalar,
    Secret,
)


class Stage(Declaration):
    """What every stage may say."""

    retry: Retry = field(default_factory=Retry, description="Retries after passing failures.")
    timeout_minutes: float | None = field(default=None, gt=0, description="The longest it may take.")
    memory_gb: float | None = field(
        default=None,
        gt=0,
        le=1e6,
        description="Main memory in GB that it may take: what it is counted for beside other stages, and the"
        " limit of its container.",
    )
    on_failure: Literal["stop", "continue"] = field(
        default="stop", description="Whether independent stages go on when this one fails."
    )
    container: Container | None = field(default=None, description="An image for this stage alone.")


class During(Declaration):
    """Measure a model while it is trained, by evals of the recipe, and say what follows from it."""

    every: int = field(
        ge=1,
        description="Optimizer steps between evaluations, rounded up to where the method resumes exactly;"
        " there is one after the last step too.",
    )
    evals: list[Name] = field(
        min_length=1, description="Eval stages: their data, reward, sampling and metrics, on this model."
    )
    metric: str | None = field(
        default=None, description="EVAL.METRIC that `keep: best` and `patience` go by."
    )
    better: Literal["higher", "lower"] = field(default="higher", description="Which value is the better.")
    gain: float = field(
        default=0.0, ge=0, description="An evaluation counts as better if it is so by more than this."
    )
    keep: Literal["last", "best"] = field(
        default="last", description="The weights that the stage gives: the last, or those measured best."
    )
    patience: int | None = field(
        default=None, ge=1, description="Evaluations in a row without a better one that end the training."
    )


class Train(Stage):
    """Train a model by a method."""

    train: str = field(description="The method: sft, dpo, grpo and so on.")
    model: str = field(description="A model, or the earlier stage whose product is trained further.")
    data: str = field(description="A dataset, or one of its parts as NAME.PART.")
    reward: str | None = field(default=None, description="The reward graph, for methods that need one.")
    environment: str | None = field(
        default=None, description="The environment to act in, over several turns, for methods that can."
    )
    reference: str | None = field(
        default=None,
        description="The frozen model compared with; the starting weights if not given.",
    )
    prompts: Prompts = field(default="auto", description=PROMPTS)
    adapter: Adapter | None = field(default=None, description="What is trained; else the model's.")
    placement: Literal["auto"] | Placement = field(
        default="auto", description="How it lies on the target; auto lets the compiler choose."
    )
    params: dict[str, Any] = field(default_factory=dict[str, Any], description="The method's parameters.")
    evaluate: During | None = field(
        default=None, description="Evals of the model while it is trained, and what follows from them."
    )
    trl: dict[str, Any] = field(
        default_factory=dict[str, Any],
        description="Further arguments of TRL's own, passed as they are.",
    )


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
    prompts: Prompts = field(default="auto", description=PROMPTS)
    metrics: dict[Name, Any] = field(
        description="Named metrics: a node (rate or mean by its type), {rate: NODE}, {mean: NODE} or"
        " {pass_at: {node: NODE, k: K}}."
    )
    by: list[str] = field(
        default_factory=list[str], description="Columns by whose values each metric is given apart."
    )
    template: str | None = field(default=None, description=TEMPLATE)
    shots: Shots | None = field(default=None, description="Worked examples before each prompt.")
    engine: Engine = field(default="auto", description=ENGINE)
    sampling: Sampling = field(default_factory=Sampling, description="How completions are drawn.")

    @property
    def subjects(self) -> list[str]:
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
    shots: int | None = field(
        default=None, ge=0, le=64, description="Worked examples before each item; else as the task says."
    )
    limit: int | None = field(
        default=None,
        ge=1,
        description="The first so many items of each task; figures to be quoted need all of them.",
    )
    prompts: Prompts = field(default="plain", description=PROMPTS)
    batch: int = field(default=16, ge=1, description="Requests that are computed together.")
    revisions: dict[str, str] = field(
        default_factory=dict[str, str],
        description="The commits of the tasks' data sets, by ORG/NAME on the hub. Without them the data may"
        " change, and the stage is computed anew in every run.",
    )
    unsafe_code: bool = field(
        default=False,
        description="Whether tasks may run code that is not at hand: programs that the model writes, outside"
        " any sandbox, and metrics from the hub.",
    )

    @property
    def subjects(self) -> list[str]:
        """The names of what is measured."""
        return [self.benchmark] if isinstance(self.benchmark, str) else self.benchmark

    @property
    def sampling(self) -> Sampling:
        """What it asks of memory: tasks say themselves how they sample."""
        return Sampling(batch=self.batch)


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
    effect: float | None = field(
        default=None,
        gt=0,
        description="A distance from the threshold or margin that the gate must be able to tell, four times"
        " in five: whether the data has rows enough for that is checked before anything runs.",
    )
    disagreement: float = field(
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


class Push(Declaration):
    """Where an exported model is brought: exactly one of hub and folder is given."""

    hub: str | None = field(
        default=None,
        pattern=r"^[A-Za-z0-9][\w.-]*/[\w.-]+$",
        description="ORG/NAME: a repository of the hub, made if there is none.",
    )
    folder: str | None = field(
        default=None,
        min_length=1,
        description="A folder of this machine; what is not absolute lies beside the home. An earlier export"
        " there is replaced, anything else never.",
    )
    private: bool = field(default=True, description="Whether a repository that is made is private.")
    revision: str | None = field(
        default=None, min_length=1, description="The repository's branch; its main one when not given."
    )
    token: Secret = field(
        default=Secret(env="HF_TOKEN"), description="The secret that lets the hub take the model."
    )

    def check(self) -> None:
        if (self.hub is None) == (self.folder is None):
            raise ValueError("`push` names one place: a `hub` repository or a `folder`")
        if self.folder is not None and self.revision is not None:
            raise ValueError("a folder has no revisions: `revision` goes with `hub`")


class Export(Stage):
    """Write a model for use elsewhere."""

    export: str = field(description="The model or stage whose product is written.")
    merge: bool = field(default=True, description="Merge an adapter into its base.")
    push: Push | None = field(default=None, description="Where it is brought, beside the store.")


class Generate(Stage):
    """Write completions as a dataset."""

    generate: str = field(description="A model, an endpoint, or a stage.")
    data: str = field(description="The rows to complete.")
    prompts: Prompts = field(default="auto", description=PROMPTS)
    sampling: Sampling = field(default_factory=Sampling, description="How completions are drawn.")
    reward: str | None = field(default=None, description="A graph that scores what is written.")
    keep: Literal["all", "best", "pair"] | Above = field(
        default="all",
        description="All samples; the best of each row; the best and the worst as chosen and rejected; or"
        " {above: X}, those that score at least X.",
    )
    may_lose: float = field(
        default=0.0,
        ge=0,
        lt=1,
        description="The share of completions that an endpoint may leave unanswered; above it the stage"
        " fails, and another run asks for these alone.",
    )
    template: str | None = field(default=None, description=TEMPLATE)
    shots: Shots | None = field(default=None, description="Worked examples before each prompt.")
    dialogue: Dialogue | None = field(
        default=None, description="Write conversations with another model instead of completions."
    )
    engine: Engine = field(default="auto", description=ENGINE)


class Script(Stage):
    """Run a program of the user's."""

    script: list[str] = field(min_length=1, description="The command and its arguments.")
    inputs: dict[Name, str] = field(
        default_factory=dict[str, str], description="Datasets, models and stages it reads, by role."
    )
    files: list[str] = field(default_factory=list[str], description="Files beside the recipe that it needs.")
    network: bool = field(default=False, description="Whether it may use the network.")


AnyStage = Train | Evaluate | Benchmark | Gate | Export | Generate | Script
VERBS: dict[str, type[AnyStage]] = {
    "train": Train,
    "eval": Evaluate,
    "benchmark": Benchmark,
    "gate": Gate,
    "export": Export,
    "generate": Generate,
    "script": Script,
}


class Header(Declaration):
    """What a recipe says about itself, beside its declarations and stages."""

    recipe: Literal[1] = field(description="The version of the language.")
    name: Name = field(description="The recipe's name.")
    description: str = field(default="", description="What it is for, in a sentence or two.")
    seed: int = field(default=0, ge=0, description="Where all randomness starts.")
    vars: dict[Name, Scalar] = field(
        default_factory=dict[str, Scalar], description="Values for ${vars.NAME}, set with --set."
    )
    hardware: Hardware = field(default_factory=Hardware, description="The target machine.")
    container: Container | None = field(default=None, description="The image that steps run in.")
    tracking: list[str] = field(
        default_factory=lambda: ["tensorboard"], description="Trackers that receive the metrics."
    )


class Recipe(Header):
    """One file that describes a whole pipeline."""

    models: dict[Name, Model] = field(default_factory=dict[str, Model], description="Models.")
    datasets: dict[Name, Dataset] = field(default_factory=dict[str, Dataset], description="Datasets.")
    rewards: dict[Name, Reward] = field(default_factory=dict[str, Reward], description="Rewards.")
    endpoints: dict[Name, Endpoint] = field(
        default_factory=dict[str, Endpoint], description="Models behind HTTP interfaces."
    )
    environments: dict[Name, Environment] = field(
        default_factory=dict[str, Environment], description="Places to act in."
    )
    stages: dict[Name, AnyStage] = field(description="What is done.")


SECTIONS: dict[str, type[Declaration]] = {
    "models": Model,
    "datasets": Dataset,
    "rewards": Reward,
    "endpoints": Endpoint,
    "environments": Environment,
}
