"""The pass that lays every stage of a checked recipe on its target."""

from collections.abc import Mapping

from posttrain.compiler.check import Checked
from posttrain.compiler.checks.subject import Subject, subjects
from posttrain.compiler.findings import Findings
from posttrain.compiler.placement.generating import place_generation
from posttrain.compiler.placement.placed import Placed
from posttrain.compiler.placement.target import Target, target_of
from posttrain.compiler.placement.training import place_training
from posttrain.spec.recipe import Model
from posttrain.spec.stages import Evaluate, Generate


def place(checked: Checked, findings: Findings) -> Mapping[str, Placed]:
    """What placement adds, by stage. Stages that are mistaken elsewhere are left out."""
    target = target_of(checked.named.recipe.hardware, findings)
    if target is None:
        return {}
    found: dict[str, Placed] = {}
    for subject in subjects(checked.named, checked.trainings):
        placed = place_training(subject, target, _reference(subject, checked), findings)
        if placed is not None:
            found[subject.name] = placed
    for name, stage in checked.named.recipe.stages.items():
        if isinstance(stage, Evaluate | Generate) and f"stage:{name}" in checked.lines:
            found[name] = _generation(name, stage, target, checked)
    return found


def _reference(subject: Subject, checked: Checked) -> Model | None:
    """The model that the reference's line begins with, where the stage names one."""
    return _origin(checked.named.refs.get((f"stage:{subject.name}", "reference")), checked)


def _origin(ref: object, checked: Checked) -> Model | None:
    line = checked.lines.get(getattr(ref, "node", ""))
    return checked.named.recipe.models.get(line.origin) if line and line.origin else None


def _generation(name: str, stage: Evaluate | Generate, target: Target, checked: Checked) -> Placed:
    evaluation = checked.evals.get(name)
    rows = evaluation.rows if evaluation else None
    model = _origin(checked.named.refs.get((f"stage:{name}", "model")), checked)
    return place_generation(model, stage.sampling, rows, "vllm" if target.gpus else "transformers", target)
