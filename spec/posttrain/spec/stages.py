"""The verbs of a recipe: each stage is one of these, known by its first key."""

from typing import Any, Literal

from pydantic import Field

from posttrain.spec.recipe import (
    Adapter,
    Container,
    Dataset,
    Declaration,
    Endpoint,
    Environment,
    Hardware,
    Model,
    Name,
    Placement,
    Retry,
    Reward,
    Scalar,
)


class Stage(Declaration):
    """What every stage may say."""

    retry: Retry = Field(default_factory=Retry, description="Retries after passing failures.")
    timeout_minutes: float | None = Field(default=None, gt=0, description="The longest it may take.")
    on_failure: Literal["stop", "continue"] = Field(
        default="stop", description="Whether independent stages go on when this one fails."
    )
    container: Container | None = Field(default=None, description="An image for this stage alone.")


Prompts = Literal["auto", "chat", "plain"]
_PROMPTS = (
    "How text prompts reach the model: as a user's message through the chat template, or as plain"
    " text; auto takes the template where the model has one."
)


class Sampling(Declaration):
    """How completions are drawn."""

    temperature: float = Field(default=0.0, ge=0, description="0 takes the likeliest token.")
    top_p: float = Field(default=1.0, gt=0, le=1, description="Nucleus sampling's mass.")
    max_tokens: int = Field(default=256, ge=1, description="The longest completion, in tokens.")
    samples: int = Field(default=1, ge=1, description="Completions for each row.")
    batch: int = Field(default=64, ge=1, description="Rows generated together; no effect on greedy text.")


class Train(Stage):
    """Train a model by a method."""

    train: str = Field(description="The method: sft, dpo, grpo and so on.")
    model: str = Field(description="A model, or the earlier stage whose product is trained further.")
    data: str = Field(description="A dataset, or one of its parts as NAME.PART.")
    reward: str | None = Field(default=None, description="The reward graph, for methods that need one.")
    reference: str | None = Field(
        default=None,
        description="The frozen model compared with; the starting weights if not given.",
    )
    prompts: Prompts = Field(default="auto", description=_PROMPTS)
    adapter: Adapter | None = Field(default=None, description="What is trained; else the model's.")
    placement: Literal["auto"] | Placement = Field(
        default="auto", description="How it lies on the target; auto lets the compiler choose."
    )
    params: dict[str, Any] = Field(default_factory=dict[str, Any], description="The method's parameters.")
    trl: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="Further arguments of TRL's own, passed as they are.",
    )


class Evaluate(Stage):
    """Sample completions on data and score them."""

    eval: str = Field(description="A model, an endpoint, or the stage whose product is measured.")
    data: str = Field(description="A dataset, or one of its parts as NAME.PART.")
    reward: str = Field(description="The reward graph that scores.")
    prompts: Prompts = Field(default="auto", description=_PROMPTS)
    metrics: dict[Name, Any] = Field(
        description="Named metrics: a node (rate or mean by its type), {rate: NODE} or {mean: NODE}."
    )
    sampling: Sampling = Field(default_factory=Sampling, description="How completions are drawn.")


class Condition(Declaration):
    """One condition of a gate. Exactly one of at_least, at_most, better_than is given."""

    metric: str = Field(description="STAGE.METRIC of an earlier eval.")
    at_least: float | None = Field(default=None, description="The least value.")
    at_most: float | None = Field(default=None, description="The greatest value.")
    better_than: str | None = Field(default=None, description="STAGE.METRIC to beat, item by item.")
    margin: float = Field(
        default=0.0, description="By how much to beat it; below 0 tolerates that much loss."
    )
    confidence: float = Field(default=0.95, gt=0.5, lt=1, description="How sure the verdict must be.")


class Gate(Stage):
    """Hold back every stage written after it until its conditions are shown to hold."""

    gate: list[Condition] = Field(min_length=1, description="Conditions; all must hold.")
    on_fail: Literal["stop", "warn"] = Field(default="stop", description="What a failure does.")
    on_inconclusive: Literal["stop", "warn", "pass"] = Field(
        default="stop", description="What it does when the data cannot tell."
    )


class Export(Stage):
    """Write a model for use elsewhere."""

    export: str = Field(description="The model or stage whose product is written.")
    merge: bool = Field(default=True, description="Merge an adapter into its base.")


class Generate(Stage):
    """Write completions as a dataset."""

    generate: str = Field(description="A model, an endpoint, or a stage.")
    data: str = Field(description="The rows to complete.")
    prompts: Prompts = Field(default="auto", description=_PROMPTS)
    sampling: Sampling = Field(default_factory=Sampling, description="How completions are drawn.")
    reward: str | None = Field(default=None, description="A graph that scores what is written.")
    keep: Literal["all", "best"] = Field(default="all", description="All samples, or the best a row.")


class Script(Stage):
    """Run a program of the user's."""

    script: list[str] = Field(min_length=1, description="The command and its arguments.")
    inputs: dict[Name, str] = Field(
        default_factory=dict[str, str], description="Datasets, models and stages it reads, by role."
    )
    files: list[str] = Field(default_factory=list[str], description="Files beside the recipe that it needs.")
    network: bool = Field(default=False, description="Whether it may use the network.")


AnyStage = Train | Evaluate | Gate | Export | Generate | Script
VERBS: dict[str, type[AnyStage]] = {
    "train": Train,
    "eval": Evaluate,
    "gate": Gate,
    "export": Export,
    "generate": Generate,
    "script": Script,
}


class Header(Declaration):
    """What a recipe says about itself, beside its declarations and stages."""

    recipe: Literal[1] = Field(description="The version of the language.")
    name: Name = Field(description="The recipe's name.")
    description: str = Field(default="", description="What it is for, in a sentence or two.")
    seed: int = Field(default=0, ge=0, description="Where all randomness starts.")
    vars: dict[Name, Scalar] = Field(
        default_factory=dict[str, Scalar], description="Values for ${vars.NAME}, set with --set."
    )
    hardware: Hardware = Field(default_factory=Hardware, description="The target machine.")
    container: Container | None = Field(default=None, description="The image that steps run in.")
    tracking: list[str] = Field(
        default_factory=lambda: ["tensorboard"], description="Trackers that receive the metrics."
    )


class Recipe(Header):
    """One file that describes a whole pipeline."""

    models: dict[Name, Model] = Field(default_factory=dict[str, Model], description="Models.")
    datasets: dict[Name, Dataset] = Field(default_factory=dict[str, Dataset], description="Datasets.")
    rewards: dict[Name, Reward] = Field(default_factory=dict[str, Reward], description="Rewards.")
    endpoints: dict[Name, Endpoint] = Field(
        default_factory=dict[str, Endpoint], description="Models behind HTTP interfaces."
    )
    environments: dict[Name, Environment] = Field(
        default_factory=dict[str, Environment], description="Places to act in."
    )
    stages: dict[Name, AnyStage] = Field(description="What is done.")


SECTIONS: dict[str, type[Declaration]] = {
    "models": Model,
    "datasets": Dataset,
    "rewards": Reward,
    "endpoints": Endpoint,
    "environments": Environment,
}
