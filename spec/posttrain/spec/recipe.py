"""The recipe: its header, its sections, and the verbs of its stages.

Every field has one meaning, one default and one description. The JSON Schema, `recipe explain` and
the reference pages all print that description.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticKnownError

from posttrain.spec.artifact_stages import Export, Generate, Script
from posttrain.spec.declaration_fields import Declaration
from posttrain.spec.declarations import Dataset, Endpoint, Environment, Reward
from posttrain.spec.eval_stages import Benchmark, Evaluate, Gate
from posttrain.spec.field_types import Items, Name, Scalar
from posttrain.spec.hardware import Container, Hardware
from posttrain.spec.model_declaration import Model
from posttrain.spec.train_stage import Train

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


def _integer(version: Any) -> Any:
    """Reject true and 1.0, which equal 1."""
    if type(version) is not int:
        raise PydanticKnownError("literal_error", {"expected": "1"})
    return version


class Header(Declaration):
    """The settings of a recipe other than its declarations and stages."""

    recipe: Annotated[Literal[1], BeforeValidator(_integer)] = Field(
        description="Version of the recipe language."
    )
    name: Name = Field(description="Name of the recipe.")
    description: str = Field(default="", description="The purpose of the recipe, in a sentence or two.")
    seed: int = Field(
        default=0,
        ge=0,
        description="Random seed. Each step derives its own seed from it and the step's name.",
    )
    vars: dict[Name, Scalar] = Field(
        default_factory=dict[str, Scalar],
        description="Variables: ${vars.NAME} inserts a value, and `--set vars.NAME=VALUE` overrides it.",
    )
    hardware: Hardware = Field(default_factory=Hardware, description="The target machine.")
    container: Container | None = Field(
        default=None, description="Container image for all steps. Default: steps run on the machine itself."
    )
    tracking: Items[str] = Field(default=("tensorboard",), description="Trackers that receive the metrics.")


class Recipe(Header):
    """One file that describes a whole pipeline."""

    models: dict[Name, Model] = Field(
        default_factory=dict[str, Model], description="Models that stages train, evaluate or export, by name."
    )
    datasets: dict[Name, Dataset] = Field(
        default_factory=dict[str, Dataset], description="Datasets that stages read, by name."
    )
    rewards: dict[Name, Reward] = Field(
        default_factory=dict[str, Reward], description="Reward graphs that score completions, by name."
    )
    endpoints: dict[Name, Endpoint] = Field(
        default_factory=dict[str, Endpoint], description="Models that are served over HTTP, by name."
    )
    environments: dict[Name, Environment] = Field(
        default_factory=dict[str, Environment], description="Environments for multi-turn episodes, by name."
    )
    stages: dict[Name, AnyStage] = Field(description="Stages of the pipeline, by name.")


SECTIONS: dict[str, type[Declaration]] = {
    "models": Model,
    "datasets": Dataset,
    "rewards": Reward,
    "endpoints": Endpoint,
    "environments": Environment,
}
