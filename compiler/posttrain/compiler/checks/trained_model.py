"""A training stage as the checks use it: with its base model, the shape of the model, and its adapter."""

from collections.abc import Mapping
from typing import Any

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.resolution.lineage import Lineage
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.stages.train_stage import CheckedTraining
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.adapter_declaration import Adapter
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.declaration_fields import is_explicitly_set
from posttrain.spec.extension import Method
from posttrain.spec.hardware import Placement, Rollouts
from posttrain.spec.model_declaration import Model
from posttrain.spec.record import record
from posttrain.spec.train_stage import Train


@record(kw_only=True)
class TrainedModel:
    name: str
    training: CheckedTraining
    # The declared model that the chain of stages starts from; None if it is invalid or made by a script.
    base_model: Model | None
    # Its shape: known for models created with `init`, and for published models in the table.
    shape: Shape | None
    adapter: Adapter | None
    # Where the adapter is declared.
    adapter_path: KeyPath
    # The stage that produces the model, if it is a training stage.
    previous_stage: str | None
    # Whether the target has GPUs.
    has_gpus: bool

    @property
    def stage(self) -> Train:
        return self.training.stage

    @property
    def method(self) -> Method:
        return self.training.method

    @property
    def path(self) -> KeyPath:
        return ("stages", self.name)

    def param_path(self, param: str) -> KeyPath:
        """Return the path of a parameter of the method."""
        return (*self.path, "params", param)

    def param_value(self, param: str) -> Any:
        """Return the value of a parameter, or None if the method does not have it."""
        return getattr(self.training.params, param, None)

    def is_param_given(self, param: str) -> bool:
        """Return whether the recipe sets the parameter."""
        return is_explicitly_set(self.training.params, param)

    @property
    def from_scratch(self) -> bool:
        """Whether the model has random initial weights, to which common practice does not apply."""
        return self.base_model is not None and self.base_model.init is not None

    @property
    def has_adapter(self) -> bool:
        return self.adapter is not None and self.adapter.type != "full"

    def choose_rollout_engine(self, requested: str, gpus: bool) -> str:
        """Return the engine that generates completions: the requested one, or vLLM if it can be used."""
        if requested != "auto":
            return requested
        able = "vllm" in self.method.footprint.engines and not self.is_int8
        return "vllm" if gpus and able else "transformers"

    @property
    def rollout_engine(self) -> str:
        """The engine that generates completions, or `server` for a vLLM server."""
        placement = self.stage.placement
        rollouts = placement.rollouts if isinstance(placement, Placement) else Rollouts()
        engine = self.choose_rollout_engine(rollouts.engine, self.has_gpus)
        return "server" if engine == "vllm" and rollouts.mode == "server" else engine

    @property
    def is_int8(self) -> bool:
        return self.base_model is not None and self.base_model.quantize == "int8"

    @property
    def num_parameters(self) -> int | None:
        return parameter_counts.count_parameters(self.shape) if self.shape else None

    @property
    def context_length(self) -> int | None:
        """The longest sequence that the model takes, in tokens."""
        return self.shape.positions if self.shape else None


def trained_models(
    resolved: ResolvedRecipe,
    trainings: Mapping[str, CheckedTraining],
    lineages: Mapping[str, Lineage],
    shapes: Mapping[str, Shape],
) -> tuple[TrainedModel, ...]:
    """Return the training stages whose model is valid, with their base models."""
    found: list[TrainedModel] = []
    for name, training in trainings.items():
        line = lineages.get(f"stage:{name}")
        if line is None:
            continue
        ref = resolved.refs.get((f"stage:{name}", "model"))
        found.append(
            TrainedModel(
                name=name,
                training=training,
                base_model=resolved.recipe.models.get(line.origin) if line.origin else None,
                shape=shapes.get(line.origin) if line.origin else None,
                adapter=line.adapter,
                adapter_path=line.adapter_path,
                previous_stage=ref.name if ref is not None and ref.name in trainings else None,
                has_gpus=resolved.recipe.hardware.gpus is not None,
            )
        )
    return tuple(found)
