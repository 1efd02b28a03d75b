"""A training stage as the checks see it: with the model that its line begins with, and its adapter."""

from collections.abc import Mapping
from typing import Any

from posttrain.compiler.facts import parameters
from posttrain.compiler.facts.shapes import Shape
from posttrain.compiler.resolution.lineage import Line
from posttrain.compiler.resolution.names import Named
from posttrain.compiler.stages.training import Training
from posttrain.compiler.text.tree import Path
from posttrain.spec.declared import is_given
from posttrain.spec.extension import Method
from posttrain.spec.hardware import Placement, Rollouts
from posttrain.spec.models import Adapter, Model
from posttrain.spec.record import record
from posttrain.spec.training import Train


@record(kw_only=True)
class Subject:
    name: str
    training: Training
    # The declared model that the line begins with; None when it is mistaken, or a script made it.
    origin: Model | None
    # Its shape: known for models made from nothing, and for published ones of the table.
    shape: Shape | None
    adapter: Adapter | None
    # Where the adapter is declared.
    adapter_path: Path
    # The stage that the model comes from, when it is a training stage.
    before: str | None
    # Whether the target has GPUs.
    gpus: bool

    @property
    def stage(self) -> Train:
        return self.training.stage

    @property
    def method(self) -> Method:
        return self.training.method

    @property
    def path(self) -> Path:
        return ("stages", self.name)

    def at(self, param: str) -> Path:
        """The path of one of the method's parameters."""
        return (*self.path, "params", param)

    def value(self, param: str) -> Any:
        """A parameter's value; None for those that the method does not have."""
        return getattr(self.training.params, param, None)

    def written(self, param: str) -> bool:
        """Whether the recipe gives the parameter itself."""
        return is_given(self.training.params, param)

    @property
    def scratch(self) -> bool:
        """Whether the model began with random weights: practice with published ones says nothing."""
        return self.origin is not None and self.origin.init is not None

    @property
    def adapted(self) -> bool:
        return self.adapter is not None and self.adapter.kind != "full"

    def engine(self, wanted: str, gpus: bool) -> str:
        """What writes the completions that the stage learns from: what is wanted, or else what can."""
        if wanted != "auto":
            return wanted
        able = "vllm" in self.method.footprint.engines and not self.in_eight_bits
        return "vllm" if gpus and able else "transformers"

    @property
    def writer(self) -> str:
        """That engine; a server of vLLM's is another one."""
        placement = self.stage.placement
        rollouts = placement.rollouts if isinstance(placement, Placement) else Rollouts()
        engine = self.engine(rollouts.engine, self.gpus)
        return "server" if engine == "vllm" and rollouts.mode == "server" else engine

    @property
    def in_eight_bits(self) -> bool:
        return self.origin is not None and self.origin.quantize == "int8"

    @property
    def size(self) -> int | None:
        return parameters.count(self.shape) if self.shape else None

    @property
    def context(self) -> int | None:
        """The longest sequence that the model takes."""
        return self.shape.positions if self.shape else None


def subjects(
    named: Named,
    trainings: Mapping[str, Training],
    known: Mapping[str, Line],
    shapes: Mapping[str, Shape],
) -> tuple[Subject, ...]:
    """The training stages whose model is not mistaken, with what their lines begin with."""
    found: list[Subject] = []
    for name, training in trainings.items():
        line = known.get(f"stage:{name}")
        if line is None:
            continue
        ref = named.refs.get((f"stage:{name}", "model"))
        found.append(
            Subject(
                name=name,
                training=training,
                origin=named.recipe.models.get(line.origin) if line.origin else None,
                shape=shapes.get(line.origin) if line.origin else None,
                adapter=line.adapter,
                adapter_path=line.adapter_path,
                before=ref.name if ref is not None and ref.name in trainings else None,
                gpus=named.recipe.hardware.gpus is not None,
            )
        )
    return tuple(found)
