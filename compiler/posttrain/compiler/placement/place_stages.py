"""The pass that lays every stage of a checked recipe on its target."""

from collections.abc import Mapping

from posttrain.compiler.checks.trained_model import TrainedModel, trained_models
from posttrain.compiler.data.datasets import table_of
from posttrain.compiler.data.table_schema import TableSchema
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.placement.generation_placement import combine_placements, place_generation
from posttrain.compiler.placement.stage_placement import StagePlacement
from posttrain.compiler.placement.stage_workload import AuxiliaryModel, AuxiliaryModels
from posttrain.compiler.placement.target import Target, resolve_target
from posttrain.compiler.placement.training_placement import place_training
from posttrain.compiler.semantic_checks import CheckedRecipe
from posttrain.compiler.stages.inference import InferenceTarget as Asked
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.eval_stages import Benchmark, Evaluate


def place_stages(checked: CheckedRecipe, diagnostics: Diagnostics) -> Mapping[str, StagePlacement]:
    """What placement adds, by stage. Stages that are mistaken elsewhere are left out."""
    target = resolve_target(checked.resolved.recipe.hardware, diagnostics)
    if target is None:
        return {}
    found: dict[str, StagePlacement] = {}
    for subject in trained_models(checked.resolved, checked.trainings, checked.lineages, checked.shapes):
        rows = _dataset_rows(subject.name, checked)[0]
        placed = place_training(subject, target, _auxiliary_models(subject, checked), rows, diagnostics)
        if placed is not None:
            found[subject.name] = placed
    asking = {name: (found.stage, found.inference) for name, found in checked.evals.items()}
    asking |= {name: (found.stage, found.inference) for name, found in checked.benchmarks.items()}
    asking |= {name: (found.stage, found.inference) for name, found in checked.generations.items()}
    for name, (stage, how) in asking.items():
        laid = [
            _place_inference_model(name, stage, one, target, checked)
            for one in how.targets
            if one.endpoint is None
        ]
        if laid:
            found[name] = combine_placements(laid)
    return found


def _dataset_rows(name: str, checked: CheckedRecipe) -> tuple[TableSchema | None, str | None]:
    """What is known of the rows that a stage reads, and the part of them that it does."""
    ref = checked.resolved.refs.get((f"stage:{name}", "data"))
    return (table_of(ref, checked.rows, checked.resolved), ref.part) if ref is not None else (None, None)


def _auxiliary_models(trained_model: TrainedModel, checked: CheckedRecipe) -> AuxiliaryModels:
    """What the lines of the reference and of the models that score begin with, where there are some; an
    eval on the way has its own that score."""
    owner = f"stage:{trained_model.name}"
    found = {
        role: _auxiliary_model(owner, role, checked) for role in checked.resolved.by_owner.get(owner, ())
    }
    scorers = {
        role.partition(":")[2]: other
        for role, other in found.items()
        if "reward:" in role and other is not None
    }
    during = trained_model.stage.evaluate
    stages = [checked.resolved.recipe.stages.get(name) for name in during.evals] if during else []
    evals = tuple(one.sampling for one in stages if isinstance(one, Evaluate))
    return AuxiliaryModels(found.get("reference"), scorers, evals)


def _auxiliary_model(owner: str, role: str, checked: CheckedRecipe) -> AuxiliaryModel | None:
    origin = _origin_model(owner, role, checked)
    if origin is None:
        return None
    return AuxiliaryModel(checked.resolved.recipe.models[origin], checked.shapes.get(origin))


def _origin_model(owner: str, role: str, checked: CheckedRecipe) -> str | None:
    ref = checked.resolved.refs.get((owner, role))
    line = checked.lineages.get(ref.node) if ref is not None else None
    return line.origin if line is not None and line.origin in checked.resolved.recipe.models else None


def _place_inference_model(
    name: str, stage: Evaluate | Generate | Benchmark, subject: Asked, target: Target, checked: CheckedRecipe
) -> StagePlacement:
    table, part = _dataset_rows(name, checked)
    rows = table.expected_rows(part) if table is not None else None
    about = (
        f"about {rows} rows, {table.estimate_source}"
        if table is not None and table.is_estimated(part)
        else ""
    )
    origin = _origin_model(f"stage:{name}", subject.role, checked) or ""
    model, shape = checked.resolved.recipe.models.get(origin), checked.shapes.get(origin)
    return place_generation(model, shape, stage.sampling, rows, subject.engine, target, about)
