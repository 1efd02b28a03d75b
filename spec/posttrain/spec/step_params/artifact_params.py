"""Parameters of the steps that make artifacts: `model`, `generate`, `export`, `script`."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from posttrain.spec.canonical_json import Json
from posttrain.spec.document import Document
from posttrain.spec.field_types import Items
from posttrain.spec.inference import MinScore
from posttrain.spec.model_declaration import RandomInit, Tags
from posttrain.spec.step_params.generation_params import GenerationParams, SamplingOptions
from posttrain.spec.step_params.reward_params import RewardGraphParams
from posttrain.spec.step_params.step_parameters import StepParams, omitted, omitted_if_empty
from posttrain.spec.tokenizer_declaration import Tokenizer


class BuiltinTemplateParams(Document):
    """A built-in chat template."""

    name: str
    sha256: str
    # Whether the tokenizer's own template takes precedence.
    fallback: bool


class ModelStepParams(StepParams):
    """Parameters of a model. Its adapter is a parameter of the stages that train it."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    init: RandomInit | None
    from_: Annotated[str | None, Field(alias="from")]
    revision: str | None
    tokenizer: Tokenizer | None
    # A file; its content is an input of the step.
    chat_template: str | None
    builtin_template: BuiltinTemplateParams | None = omitted()
    tags: Tags | None
    # Default arguments of the chat template, such as enable_thinking.
    chat_template_kwargs: Mapping[str, Json] = omitted_if_empty({})
    dtype: Literal["auto", "float32", "bfloat16", "float16"]
    quantize: Literal["none", "int8", "nf4"]
    seed: int


class UserSampling(SamplingOptions):
    """Sampling parameters of a dialogue's second model."""

    # None if the seed is derived from the step's.
    seed: int | None


class DialogueOptions(Document):
    """A conversation of two models."""

    max_turns: int
    opening: str
    system: str
    with_system: str
    begin: str
    stop: Items[str]
    sampling: UserSampling


class GenerateStepParams(GenerationParams):
    """Parameters of a generate step."""

    reward: RewardGraphParams | None
    sampling: SamplingOptions
    keep: Literal["all", "best", "pair"] | MinScore
    max_failed_ratio: float
    dialogue: DialogueOptions | None


class PushTarget(Document):
    """Destination of an exported model: a hub repository or a folder."""

    hub: str | None
    folder: str | None
    private: bool
    revision: str | None


class HubAccess(Document):
    """The environment variable with the hub token."""

    token: str


class ExportStepParams(StepParams):
    """Parameters of an export."""

    merge: bool
    max_shard_size: str | None = omitted()
    push: PushTarget | None = omitted()
    access: HubAccess | None = omitted()


# As the program of a script: the interpreter that runs the step. The PATH can have another one.
STEP_INTERPRETERS = ("python", "python3")


class OutputOptions(Document):
    """A declared output of a script: rows with columns, or a model."""

    # The columns with their types; None for a model.
    columns: Mapping[str, str] | None
    # The input whose architecture and tokenizer the model has.
    like: str | None


class ScriptStepParams(StepParams):
    """Parameters of a script."""

    command: Items[str]
    seed: int
    outputs: Mapping[str, OutputOptions] = omitted_if_empty({})
    requires: Items[str] = omitted_if_empty(())
