"""What a recipe is, as a whole: its header, its sections, its stages by their verbs.

Every field has one meaning, one default and one line of documentation. The JSON Schema, `recipe
explain` and the reference pages all print that line.
"""

from typing import Literal

from posttrain.spec.artifact_stages import Export, Generate, Script
from posttrain.spec.declaration_fields import Declaration, field
from posttrain.spec.declarations import Dataset, Endpoint, Environment, Reward
from posttrain.spec.eval_stages import Benchmark, Evaluate, Gate
from posttrain.spec.field_types import Name, Scalar
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
