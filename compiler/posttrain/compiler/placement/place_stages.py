"""The pass that places every stage of a checked recipe on the target."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posttrain.compiler.checks.trained_model import TrainedModel, trained_models
from posttrain.compiler.data.datasets import table_of
from posttrain.compiler.data.table_schema import TableSchema
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.placement.benchmark_estimate import (
    ITEM_COUNT_UNKNOWN,
    benchmark_estimate,
    count_texts,
)
from posttrain.compiler.placement.evaluation_stages import InLoopEvalStage
from posttrain.compiler.placement.generation_placement import combine_placements, place_generation
from posttrain.compiler.placement.stage_placement import StagePlacement
from posttrain.compiler.placement.stage_workload import (
    AuxiliaryModel,
    AuxiliaryModels,
)
from posttrain.compiler.placement.target import Target, resolve_target
from posttrain.compiler.placement.training_placement import place_training
from posttrain.compiler.resolution.lineage import weight_element_size
from posttrain.compiler.semantic_checks import CheckedRecipe
from posttrain.compiler.stages.inference import InferenceTarget
from posttrain.compiler.stages.script_stage import check_gpu_count
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.artifact_stages import Generate, Script
from posttrain.spec.eval_stages import Benchmark, Evaluate
from posttrain.spec.model_declaration import Model
from posttrain.spec.step_params.train_params import HELD_OUT_ROLE


def place_stages(checked: CheckedRecipe, diagnostics: Diagnostics) -> Mapping[str, StagePlacement]:
    """Return the placement of each stage. Stages with errors are left out."""
    target = resolve_target(checked.resolved.recipe.hardware, diagnostics)
    if target is None:
        return {}
    found: dict[str, StagePlacement] = {}
    for subject in trained_models(checked.resolved, checked.trainings, checked.lineages, checked.shapes):
        rows = _dataset_rows(subject.name, checked)[0]
        placed = place_training(subject, target, _auxiliary_models(subject, checked), rows, diagnostics)
        if placed is not None:
            found[subject.name] = placed
    for name, stage in checked.resolved.recipe.stages.items():
        if isinstance(stage, Script) and target.gpus:
            check_gpu_count(name, stage, target.gpus, diagnostics)
    configs = {name: (one.stage, one.inference) for name, one in checked.evals.items()}
    configs |= {name: (one.stage, one.inference) for name, one in checked.benchmarks.items()}
    configs |= {name: (one.stage, one.inference) for name, one in checked.generations.items()}
    for name, (stage, config) in configs.items():
        placements = [
            _place_inference_model(name, stage, one, target, checked)
            for one in config.targets
            if one.endpoint is None
        ]
        if placements:
            found[name] = combine_placements(placements)
    return found


def _dataset_rows(
    name: str, checked: CheckedRecipe, role: str = "data"
) -> tuple[TableSchema | None, str | None]:
    """Return the schema of the dataset of a stage, and the part that the stage reads."""
    ref = checked.resolved.refs.get((f"stage:{name}", role))
    return (table_of(ref, checked.rows, checked.resolved), ref.part) if ref is not None else (None, None)


def _auxiliary_models(trained_model: TrainedModel, checked: CheckedRecipe) -> AuxiliaryModels:
    """Return the base models of the reference and of the reward models, including those of evaluations
    during training."""
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
    stages = {name: checked.resolved.recipe.stages.get(name) for name in during.evals} if during else {}
    evals = tuple(
        InLoopEvalStage(name, stage.sampling, *_row_count(name, checked))
        for name, stage in stages.items()
        if isinstance(stage, Evaluate)
    )
    has_rows = trained_model.name in checked.held_out
    held_out = _row_count(trained_model.name, checked, HELD_OUT_ROLE) if has_rows else None
    return AuxiliaryModels(found.get("reference"), scorers, evals, held_out)


def _row_count(name: str, checked: CheckedRecipe, role: str = "data") -> tuple[int | None, str]:
    """Return the number of rows of a stage, and a note if it is a guess."""
    table, part = _dataset_rows(name, checked, role)
    if table is None:
        return None, ""
    rows = table.expected_rows(part)
    return rows, f"about {rows} rows, {table.estimate_source}" if table.is_estimated(part) else ""


def _auxiliary_model(owner: str, role: str, checked: CheckedRecipe) -> AuxiliaryModel | None:
    origin = _origin_model(owner, role, checked)
    if origin is None:
        return None
    return AuxiliaryModel(checked.resolved.recipe.models[origin], checked.shapes.get(origin))


def _origin_model(owner: str, role: str, checked: CheckedRecipe) -> str | None:
    ref = checked.resolved.refs.get((owner, role))
    line = checked.lineages.get(ref.product) if ref is not None else None
    return line.origin if line is not None and line.origin in checked.resolved.recipe.models else None


def _place_inference_model(
    name: str,
    stage: Evaluate | Generate | Benchmark,
    subject: InferenceTarget,
    target: Target,
    checked: CheckedRecipe,
) -> StagePlacement:
    rows, about = _row_count(name, checked)
    origin = _origin_model(f"stage:{name}", subject.role, checked) or ""
    model, shape = checked.resolved.recipe.models.get(origin), checked.shapes.get(origin)
    placed = place_generation(model, shape, stage.sampling, rows, subject.engine, target, about)
    if isinstance(stage, Benchmark) and shape is not None and target.gpus:
        texts = count_texts(stage, checked.benchmarks[name].tasks)
        return replace(placed, estimate=_with_benchmark(placed, texts, stage, model, shape, target))
    return placed


def _with_benchmark(
    placed: StagePlacement,
    texts: int | None,
    stage: Benchmark,
    model: Model | None,
    shape: Shape,
    target: Target,
) -> Mapping[str, Any]:
    found = {key: value for key, value in (placed.estimate or {}).items() if key != "unknown_reason"}
    if texts is None:
        return {**found, "unknown_reason": ITEM_COUNT_UNKNOWN}
    element = weight_element_size(model)
    return {**found, **benchmark_estimate(shape, element, texts, stage, placed.gpus, target)}
