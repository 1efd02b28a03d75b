"""Semantic checks of a resolved recipe: data, rewards, then every stage by its verb."""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

from posttrain.compiler.checks.chat_templates import check_chat_templates
from posttrain.compiler.checks.container_image import check_container_images
from posttrain.compiler.checks.context_length import check_inference_lengths
from posttrain.compiler.checks.export_from_container import check_export_folders
from posttrain.compiler.checks.gpu_requirements import check_gpu_requirements
from posttrain.compiler.checks.ignored_template_arguments import (
    check_ignored_template_arguments,
    known_templates,
)
from posttrain.compiler.checks.inloop_eval import check_inloop_evals
from posttrain.compiler.checks.interpreted_columns import check_interpreted_columns
from posttrain.compiler.checks.leakage import check_leakage, check_named_parts
from posttrain.compiler.checks.passwords import check_passwords
from posttrain.compiler.checks.tags import check_tags
from posttrain.compiler.checks.template_arguments import check_template_arguments
from posttrain.compiler.checks.tracking import check_tracking
from posttrain.compiler.checks.trained_model import trained_models
from posttrain.compiler.checks.training_checks import check_training_stages
from posttrain.compiler.data.datasets import CompiledDataset, check_datasets
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.environments.checked_environment import CheckedEnvironment
from posttrain.compiler.model_checks import ModelFiles, check_models, model_shapes
from posttrain.compiler.model_support import check_quantized_checkpoints
from posttrain.compiler.model_templates import ChosenTemplate, builtin_templates
from posttrain.compiler.model_vocabulary import estimated_vocabularies
from posttrain.compiler.resolution.lineage import Lineage, model_lineages
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.rewards.graph import RewardGraph, build_graph
from posttrain.compiler.stages.branches import check_branches
from posttrain.compiler.stages.eval_stage import CheckedEval, StageWithMetrics, check_eval
from posttrain.compiler.stages.gate_stage import CheckedGate, check_gate
from posttrain.compiler.stages.held_out import CheckedHeldOut, check_held_out
from posttrain.compiler.stages.train_stage import CheckedTraining, check_training
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.user_files import user_file
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.artifact_stages import Generate, Script
from posttrain.spec.eval_stages import Benchmark, Evaluate, Gate
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record
from posttrain.spec.train_stage import Train

if TYPE_CHECKING:
    from posttrain.compiler.stages.benchmark_stage import CheckedBenchmark
    from posttrain.compiler.stages.generate_stage import CheckedGeneration

T = TypeVar("T")


@record(kw_only=True)
class CheckedRecipe:
    """A checked recipe, with all derived information that lowering needs."""

    resolved: ResolvedRecipe
    models: Mapping[str, ModelFiles]
    rows: Mapping[str, CompiledDataset]
    graphs: Mapping[str, RewardGraph]
    trainings: Mapping[str, CheckedTraining] = field(default_factory=dict[str, CheckedTraining])
    evals: Mapping[str, CheckedEval] = field(default_factory=dict[str, CheckedEval])
    # The held-out rows of training stages.
    held_out: Mapping[str, CheckedHeldOut] = field(default_factory=dict[str, CheckedHeldOut])
    benchmarks: "Mapping[str, CheckedBenchmark]" = field(default_factory=dict[str, Any])
    generations: "Mapping[str, CheckedGeneration]" = field(default_factory=dict[str, Any])
    gates: Mapping[str, CheckedGate] = field(default_factory=dict[str, CheckedGate])
    environments: Mapping[str, CheckedEnvironment] = field(default_factory=dict[str, CheckedEnvironment])
    # The origin of the weights of models and stages, by node.
    lineages: Mapping[str, Lineage] = field(default_factory=dict[str, Lineage])
    # The shapes of the declared models that are known before the run.
    shapes: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    # The models whose vocabulary is an estimate.
    estimated_vocabularies: frozenset[str] = frozenset()
    # The built-in chat templates of models.
    templates: Mapping[str, ChosenTemplate] = field(default_factory=dict[str, ChosenTemplate])
    # The user files of script stages, by role.
    files: Mapping[str, Mapping[str, UserFile]] = field(default_factory=dict[str, Mapping[str, UserFile]])


def check_semantics(
    resolved: ResolvedRecipe, request: CompileRequest, diagnostics: Diagnostics
) -> CheckedRecipe:
    rows = check_datasets(resolved, request, diagnostics)
    graphs = _build_graphs(resolved, request, diagnostics)
    lineages = model_lineages(resolved)
    templates = builtin_templates(resolved, rows, lineages)
    found = CheckedRecipe(
        resolved=resolved,
        models=check_models(resolved, request, diagnostics),
        rows=rows,
        graphs=graphs,
        lineages=lineages,
        templates=templates,
        shapes=model_shapes(resolved, templates, request),
        estimated_vocabularies=estimated_vocabularies(resolved.recipe.models, request),
        environments=_check_environments(resolved, rows, graphs, request, diagnostics),
        files=_script_files(resolved, request, diagnostics),
        **_check_stages(resolved, rows, graphs, request, diagnostics),
    )
    _check_across_stages(found, request, diagnostics)
    return found


def _build_graphs(
    resolved: ResolvedRecipe, request: CompileRequest, diagnostics: Diagnostics
) -> dict[str, RewardGraph]:
    endpoints = {**dict.fromkeys(resolved.recipe.invalid_names), **resolved.recipe.endpoints}
    found = {
        name: build_graph(reward, ("rewards", name), endpoints, request, diagnostics)
        for name, reward in resolved.recipe.rewards.items()
    }
    return {name: graph for name, graph in found.items() if graph is not None}


def _check_stages(
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    graphs: Mapping[str, RewardGraph],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> dict[str, Any]:
    """Check every stage by its verb. The result omits invalid stages."""
    trainings: dict[str, CheckedTraining | None] = {}
    evals: dict[str, CheckedEval | None] = {}
    for name, stage in resolved.recipe.stages.items():
        match stage:
            case Train():
                trainings[name] = check_training(name, stage, resolved, rows, graphs, request, diagnostics)
            case Evaluate():
                evals[name] = check_eval(name, stage, resolved, rows, graphs, request, diagnostics)
            case _:
                pass
    sound, benchmarks = _drop_none(evals), _check_benchmarks(resolved, request, diagnostics)
    trained = _drop_none(trainings)
    held_out = _drop_none(
        {name: check_held_out(name, one, resolved, rows, diagnostics) for name, one in trained.items()}
    )
    return {
        "trainings": trained,
        "evals": sound,
        "held_out": held_out,
        "benchmarks": benchmarks,
        "generations": _check_generations(resolved, rows, graphs, request, diagnostics),
        "gates": _check_gates(resolved, {**sound, **benchmarks, **held_out}, diagnostics),
    }


def _check_benchmarks(
    resolved: ResolvedRecipe, request: CompileRequest, diagnostics: Diagnostics
) -> "dict[str, CheckedBenchmark]":
    """Check the benchmarks. Recipes without benchmarks skip the imports for it."""
    stages = {name: one for name, one in resolved.recipe.stages.items() if isinstance(one, Benchmark)}
    if not stages:
        return {}
    from posttrain.compiler.stages.benchmark_stage import check_benchmark

    found = {name: check_benchmark(name, one, resolved, request, diagnostics) for name, one in stages.items()}
    return _drop_none(found)


def _check_generations(
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    graphs: Mapping[str, RewardGraph],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> "dict[str, CheckedGeneration]":
    """Check the generations. Recipes without generations skip the imports for it."""
    stages = {name: one for name, one in resolved.recipe.stages.items() if isinstance(one, Generate)}
    if not stages:
        return {}
    from posttrain.compiler.stages.generate_stage import check_generate

    return _drop_none(
        {
            name: check_generate(name, one, resolved, rows, graphs, request, diagnostics)
            for name, one in stages.items()
        }
    )


def _drop_none(found: Mapping[str, T | None]) -> dict[str, T]:
    return {name: one for name, one in found.items() if one is not None}


def _check_across_stages(found: CheckedRecipe, request: CompileRequest, diagnostics: Diagnostics) -> None:
    """Checks that involve several stages or declarations."""
    resolved = found.resolved
    trained = trained_models(resolved, found.trainings, found.lineages, found.shapes)
    check_training_stages(resolved, found.trainings, trained, request, diagnostics)
    check_quantized_checkpoints(resolved, trained, request, diagnostics)
    check_interpreted_columns(
        resolved, found.rows, found.graphs, found.environments, request.catalog, diagnostics
    )
    check_template_arguments(resolved, found.rows, found.templates, diagnostics)
    known = known_templates(resolved, found.templates, request.read)
    check_ignored_template_arguments(resolved, found.rows, found.lineages, known, diagnostics)
    check_named_parts(resolved, found.rows, diagnostics)
    if any(one.window_rows is not None for one in found.rows.values()):
        from posttrain.compiler.checks.streaming import check_streaming

        check_streaming(resolved, found.rows, trained, request.catalog, diagnostics)
    check_leakage(resolved, found.gates, diagnostics)
    check_inloop_evals(resolved, found.trainings, found.evals, found.held_out, diagnostics)
    asked = {
        name: (one.stage, one.inference) for name, one in (*found.evals.items(), *found.generations.items())
    }
    check_inference_lengths(resolved, asked, found.lineages, found.shapes, diagnostics)
    check_tags(resolved, found.graphs, found.lineages, request.read, diagnostics)
    check_chat_templates(resolved, trained, found.rows, request.read, diagnostics)
    check_gpu_requirements(resolved, trained, diagnostics)
    check_container_images(resolved.recipe, request, diagnostics)
    if any(_has_code_tests(graph) for graph in found.graphs.values()):
        from posttrain.compiler.checks.sandbox_in_container import check_sandboxes

        check_sandboxes(resolved, found.graphs, diagnostics)
    if any(one.table.null_counts for one in found.rows.values()):
        from posttrain.compiler.checks.nulls import check_nulls

        check_nulls(resolved, found.rows, found.graphs, found.trainings, diagnostics)
    if any(isinstance(stage, Script) for stage in resolved.recipe.stages.values()):
        from posttrain.compiler.stages.script_stage import check_scripts

        check_scripts(resolved, found.lineages, diagnostics)
    check_export_folders(resolved.recipe, diagnostics)
    check_tracking(resolved.recipe, request, diagnostics)
    check_passwords(resolved.recipe, diagnostics)


def _has_code_tests(graph: RewardGraph) -> bool:
    return any(op.name == "code_tests" for op in graph.ops)


def _script_files(
    resolved: ResolvedRecipe, request: CompileRequest, diagnostics: Diagnostics
) -> dict[str, dict[str, UserFile]]:
    found: dict[str, dict[str, UserFile]] = {}
    for name, stage in resolved.recipe.stages.items():
        for index, file in enumerate(stage.files if isinstance(stage, Script) else ()):
            read = user_file(file, ("stages", name, "files", index), request, diagnostics)
            if read is not None:
                found.setdefault(name, {})[file] = read[0]
    return found


def _check_environments(
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    graphs: Mapping[str, RewardGraph],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> Mapping[str, CheckedEnvironment]:
    """Check the environments. Recipes without environments skip the imports for it."""
    stages = [stage for stage in resolved.recipe.stages.values() if isinstance(stage, Train | Evaluate)]
    asked = any(stage.environment is not None for stage in stages)
    uses_environment = any(op.name == "environment" for graph in graphs.values() for op in graph.ops)
    if not (resolved.recipe.environments or asked or uses_environment):
        return {}
    from posttrain.compiler.environments.declared_environments import check_environments
    from posttrain.compiler.environments.environment_stages import check_environment_stages

    found = check_environments(resolved.recipe.environments, request, diagnostics)
    check_environment_stages(resolved, found, rows, graphs, request, diagnostics)
    return found


def _check_gates(
    resolved: ResolvedRecipe, evals: Mapping[str, StageWithMetrics], diagnostics: Diagnostics
) -> dict[str, CheckedGate]:
    check_branches(resolved, diagnostics)
    gates: dict[str, CheckedGate] = {}
    for name, stage in resolved.recipe.stages.items():
        gate = check_gate(name, stage, resolved, evals, diagnostics) if isinstance(stage, Gate) else None
        if gate is not None:
            gates[name] = gate
    return gates
