"""The verbs that produce artifacts: `generate`, `export`, `script`."""

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
from posttrain.spec.process_variables import HUB_CREDENTIAL
from posttrain.spec.stage import Stage


class Push(Declaration):
    """Destination of an exported model. Set exactly one of `hub` and `folder`."""

    hub: str | None = field(
        default=None,
        pattern=r"^[A-Za-z0-9][\w.-]*/[\w.-]+$",
        description="Repository on the hub, as ORG/NAME. It is created if it does not exist.",
    )
    folder: str | None = field(
        default=None,
        min_length=1,
        description="Folder on this machine; relative paths start at the folder that contains the home. An"
        " earlier export in it is replaced; other files are never overwritten.",
    )
    private: bool = field(default=True, description="Whether a newly created repository is private.")
    revision: str | None = field(
        default=None, min_length=1, description="Branch of the repository. Default: its main branch."
    )
    token: Secret = field(
        default=Secret(env=HUB_CREDENTIAL), description="Hub token with write access, as {env: VARIABLE}."
    )

    def check(self) -> None:
        if (self.hub is None) == (self.folder is None):
            raise ValueError("`push` takes exactly one of `hub` and `folder`")
        if self.folder is not None and self.revision is not None:
            raise ValueError("`revision` applies to `hub`, not to `folder`: remove it")


class Export(Stage):
    """Export a model for use in other tools."""

    export: str = field(description="Model to export, or the stage that trains it.")
    merge: bool = field(default=True, description="Whether to merge an adapter into its base model.")
    push: Push | None = field(
        default=None,
        description="Additional destination: a hub repository or a folder. Default: only the store.",
    )


class Generate(Stage):
    """Generate completions as a dataset."""

    generate: str = field(description="Model, endpoint or stage that generates.")
    data: str = field(description="Rows with the prompts: a dataset, or one of its parts as NAME.PART.")
    prompts: PromptFormat = field(default="auto", description=PROMPTS_DESCRIPTION)
    sampling: Sampling = field(default_factory=Sampling, description="Sampling parameters.")
    reward: str | None = field(default=None, description="Reward graph that scores the completions.")
    keep: Literal["all", "best", "pair"] | MinScore = field(
        default="all",
        description="Completions to keep: `all`; `best`, the best of each row; `pair`, the best and the worst"
        " of each row as chosen and rejected; or {min_score: X}, those that score at least X.",
    )
    max_failed_ratio: float = field(
        default=0.0,
        ge=0,
        lt=1,
        description="Maximum share of completions that an endpoint may fail to return. Above it the stage"
        " fails, and the next run requests only the missing completions.",
    )
    template: str | None = field(default=None, description=TEMPLATE_DESCRIPTION)
    few_shot: FewShot | None = field(default=None, description="Few-shot examples before each prompt.")
    dialogue: Dialogue | None = field(
        default=None, description="Generate conversations with a second model instead of single completions."
    )
    engine: EngineName = field(default="auto", description=ENGINE_DESCRIPTION)


class Script(Stage):
    """Run a user program."""

    script: list[str] = field(min_length=1, description="Command and its arguments.")
    inputs: dict[Name, str] = field(
        default_factory=dict[str, str],
        description="Datasets, models and stages that the program reads, by role.",
    )
    files: list[str] = field(
        default_factory=list[str], description="Files in the recipe's folder that the program needs."
    )
    network: bool = field(default=False, description="Whether the program may use the network.")
