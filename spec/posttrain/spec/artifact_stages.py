"""The verbs that produce artifacts: `generate`, `export`, `script`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from posttrain.spec.column_types import check_column_types
from posttrain.spec.declaration_fields import Declaration
from posttrain.spec.declarations import Secret
from posttrain.spec.field_types import Items, Name, checked_by
from posttrain.spec.inference import (
    ENGINE_DESCRIPTION,
    PROMPTS_DESCRIPTION,
    TEMPLATE_DESCRIPTION,
    TEMPLATE_KWARGS_DESCRIPTION,
    Dialogue,
    EngineName,
    FewShot,
    MinScore,
    PromptFormat,
    Sampling,
)
from posttrain.spec.process_variables import HUB_CREDENTIAL
from posttrain.spec.stage import Stage

# Folders in the working directory of a program, which files of the recipe cannot have.
RESERVED_FOLDERS = frozenset({"inputs", "outputs", "state"})
# A Python package, or one version of it.
REQUIREMENT_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(==[A-Za-z0-9][A-Za-z0-9.+!]*)?$"


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
    max_shard_size: str | None = Field(
        default=None,
        pattern=r"^[1-9][0-9]*(\.[0-9]+)?(KB|MB|GB|TB)$",
        description="Maximum size of a file with weights, such as 5GB. A weight that is larger has its own"
        " file. Default: the files of the model as they are; a merged model is one file up to 50 GB.",
    )
    push: Push | None = Field(
        default=None,
        description="Additional destination: a hub repository or a folder. Default: only the store.",
    )

    def check(self) -> None:
        if not self.merge:
            self.refuse_without_effect("max_shard_size", "with `merge: false`: an adapter is one file")


class Generate(Stage):
    """Generate completions as a dataset."""

    generate: str = Field(description="Model, endpoint or stage that generates.")
    data: str = Field(description="Rows with the prompts: a dataset, or one of its parts as NAME.PART.")
    prompts: PromptFormat = Field(default="auto", description=PROMPTS_DESCRIPTION)
    chat_template_kwargs: dict[str, Any] = Field(
        default_factory=dict[str, Any], description=TEMPLATE_KWARGS_DESCRIPTION
    )
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


class ScriptOutput(Declaration):
    """A product of a program that later stages use by name. Set exactly one of `rows` and `like`."""

    rows: Annotated[dict[str, str], Field(min_length=1), checked_by(check_column_types)] | None = Field(
        default=None,
        description="Columns of the rows that the program writes to outputs/NAME.jsonl or"
        " outputs/NAME.parquet, with their types.",
    )
    like: str | None = Field(
        default=None,
        description="Input with a model of the same architecture, tokenizer and chat template as the one that"
        " the program writes to the folder outputs/NAME. The compiler then knows its size.",
    )

    def check(self) -> None:
        if (self.rows is None) == (self.like is None):
            raise ValueError("an output takes exactly one of `rows` and `like`")


class Script(Stage):
    """Run a user program."""

    script: Items[str] = Field(
        min_length=1,
        description="Command and its arguments, without a shell. `python` is the interpreter that runs the"
        " step.",
    )
    inputs: dict[Name, str] = Field(
        default_factory=dict[str, str],
        description="Datasets, models and stages that the program reads, by role. They are in the folder"
        " inputs/ROLE.",
    )
    files: Items[str] = Field(
        default=(),
        description="Files in the recipe's folder that the program needs, its own included. They are in its"
        " working directory.",
    )
    args: dict[Name, str | int | float | bool | Items[str | int | float]] = Field(
        default_factory=dict[str, Any],
        description="Options that are appended to the command, as --NAME VALUE. True is the option alone,"
        " false omits it, and a list is several values.",
    )
    outputs: dict[Name, Literal["model"] | ScriptOutput] = Field(
        default_factory=dict[str, Any],
        description="Products of the program that stages and datasets can use, by name: `model`, {like: ROLE}"
        " or {rows: {COLUMN: TYPE}}. Each is written to outputs/NAME, checked, and read as STAGE.NAME; STAGE"
        " suffices if only one output fits.",
    )
    requires: Items[Annotated[str, Field(pattern=REQUIREMENT_PATTERN)]] = Field(
        default=(),
        description="Python packages that the program needs, as NAME or NAME==VERSION. The interpreter of the"
        " program must have them, which is checked before the run.",
    )
    gpus: int = Field(default=0, ge=0, description="Number of GPUs for the program.")
    cpus: int | None = Field(
        default=None, ge=1, description="CPU cores for the program. Default: `hardware.cpus`, or 1."
    )
    network: bool = Field(default=False, description="Whether the program may use the network.")

    def check(self) -> None:
        for name, output in self.outputs.items():
            like = output.like if isinstance(output, ScriptOutput) else None
            if like is not None and like not in self.inputs:
                raise ValueError(f"`like: {like}` of the output `{name}` is not one of the `inputs`")
        reserved = sorted({file.partition("/")[0] for file in self.files} & RESERVED_FOLDERS)
        if reserved:
            raise ValueError(f"`{reserved[0]}` is a folder of the program: move the file to another one")
