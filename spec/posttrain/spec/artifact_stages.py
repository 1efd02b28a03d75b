"""The verbs that make things of models: `generate`, `export`, `script`."""

from typing import Literal

from posttrain.spec.declaration_fields import Declaration, field
from posttrain.spec.declarations import Secret
from posttrain.spec.field_types import Name
from posttrain.spec.inference import (
    ENGINE_DESCRIPTION,
    PROMPTS_DESCRIPTION,
    TEMPLATE_DESCRIPTION,
    Dialogue,
    EngineName,
    FewShot,
    MinScore,
    PromptFormat,
    Sampling,
)
from posttrain.spec.stage import Stage


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
    prompts: PromptFormat = field(default="auto", description=PROMPTS_DESCRIPTION)
    sampling: Sampling = field(default_factory=Sampling, description="How completions are drawn.")
    reward: str | None = field(default=None, description="A graph that scores what is written.")
    keep: Literal["all", "best", "pair"] | MinScore = field(
        default="all",
        description="All samples; the best of each row; the best and the worst as chosen and rejected; or"
        " {min_score: X}, those that score at least X.",
    )
    max_failed_ratio: float = field(
        default=0.0,
        ge=0,
        lt=1,
        description="The share of completions that an endpoint may leave unanswered; above it the stage"
        " fails, and another run asks for these alone.",
    )
    template: str | None = field(default=None, description=TEMPLATE_DESCRIPTION)
    few_shot: FewShot | None = field(default=None, description="Worked examples before each prompt.")
    dialogue: Dialogue | None = field(
        default=None, description="Write conversations with another model instead of completions."
    )
    engine: EngineName = field(default="auto", description=ENGINE_DESCRIPTION)


class Script(Stage):
    """Run a program of the user's."""

    script: list[str] = field(min_length=1, description="The command and its arguments.")
    inputs: dict[Name, str] = field(
        default_factory=dict[str, str], description="Datasets, models and stages it reads, by role."
    )
    files: list[str] = field(default_factory=list[str], description="Files beside the recipe that it needs.")
    network: bool = field(default=False, description="Whether it may use the network.")
