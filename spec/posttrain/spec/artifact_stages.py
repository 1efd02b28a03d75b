"""The verbs that produce artifacts: `generate`, `export`, `script`."""

from typing import Literal

from pydantic import Field

from posttrain.spec.declaration_fields import Declaration
from posttrain.spec.declarations import Secret
from posttrain.spec.field_types import Items, Name
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

    hub: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][\w.-]*/[\w.-]+$",
        description="Repository on the hub, as ORG/NAME. It is created if it does not exist.",
    )
    folder: str | None = Field(
        default=None,
        min_length=1,
        description="Folder on this machine; relative paths start at the folder that contains the home. An"
        " earlier export in it is replaced; other files are never overwritten.",
    )
    private: bool = Field(default=True, description="Whether a newly created repository is private.")
    revision: str | None = Field(
        default=None, min_length=1, description="Branch of the repository. Default: its main branch."
    )
    token: Secret = Field(
        default=Secret(env=HUB_CREDENTIAL), description="Hub token with write access, as {env: VARIABLE}."
    )

    def check(self) -> None:
        if (self.hub is None) == (self.folder is None):
            raise ValueError("`push` takes exactly one of `hub` and `folder`")
        if self.folder is not None and self.revision is not None:
            raise ValueError("`revision` applies to `hub`, not to `folder`: remove it")


class Export(Stage):
    """Export a model for use in other tools."""

    export: str = Field(description="Model to export, or the stage that trains it.")
    merge: bool = Field(default=True, description="Whether to merge an adapter into its base model.")
    push: Push | None = Field(
        default=None,
        description="Additional destination: a hub repository or a folder. Default: only the store.",
    )


class Generate(Stage):
    """Generate completions as a dataset."""

    generate: str = Field(description="Model, endpoint or stage that generates.")
    data: str = Field(description="Rows with the prompts: a dataset, or one of its parts as NAME.PART.")
    prompts: PromptFormat = Field(default="auto", description=PROMPTS_DESCRIPTION)
    sampling: Sampling = Field(default_factory=Sampling, description="Sampling parameters.")
    reward: str | None = Field(default=None, description="Reward graph that scores the completions.")
    keep: Literal["all", "best", "pair"] | MinScore = Field(
        default="all",
        description="Completions to keep: `all`; `best`, the best of each row; `pair`, the best and the worst"
        " of each row as chosen and rejected; or {min_score: X}, those that score at least X.",
    )
    max_failed_ratio: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Maximum share of completions that an endpoint may fail to return. Above it the stage"
        " fails, and the next run requests only the missing completions.",
    )
    template: str | None = Field(default=None, description=TEMPLATE_DESCRIPTION)
    few_shot: FewShot | None = Field(default=None, description="Few-shot examples before each prompt.")
    dialogue: Dialogue | None = Field(
        default=None, description="Generate conversations with a second model instead of single completions."
    )
    engine: EngineName = Field(default="auto", description=ENGINE_DESCRIPTION)


class Script(Stage):
    """Run a user program."""

    script: Items[str] = Field(min_length=1, description="Command and its arguments.")
    inputs: dict[Name, str] = Field(
        default_factory=dict[str, str],
        description="Datasets, models and stages that the program reads, by role.",
    )
    files: Items[str] = Field(default=(), description="Files in the recipe's folder that the program needs.")
    network: bool = Field(default=False, description="Whether the program may use the network.")
