"""The checks over a recipe whose names are resolved: data, rewards, then each stage by its verb."""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

from posttrain.compiler.checks.chat_templates import check_chat_templates
from posttrain.compiler.checks.container_image import check_container_images
from posttrain.compiler.checks.context_length import check_inference_lengths
from posttrain.compiler.checks.export_from_container import check_export_folders
from posttrain.compiler.checks.gpu_requirements import check_gpu_requirements
from posttrain.compiler.checks.inloop_eval import check_inloop_evals
from posttrain.compiler.checks.tags import check_tags
from posttrain.compiler.checks.tracking import check_tracking
from posttrain.compiler.checks.trained_model import trained_models
from posttrain.compiler.checks.training_checks import check_training_stages
from posttrain.compiler.checks.unused import check_unused
from posttrain.compiler.data.datasets import CompiledDataset, check_datasets
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.environments.checked_environment import CheckedEnvironment
from posttrain.compiler.facts.model_shapes import Shape
from posttrain.compiler.model_checks import ModelFiles, check_models, model_shapes
from posttrain.compiler.resolution.lineage import Lineage, model_lineages
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.rewards.graph import RewardGraph, build_graph
from posttrain.compiler.rewards.reward_codes import UNUSED_NODE
from posttrain.compiler.stages.branches import check_branches
from posttrain.compiler.stages.eval_stage import CheckedEval, StageWithMetrics, check_eval
from posttrain.compiler.stages.gate_stage import CheckedGate, check_gate
from posttrain.compiler.stages.generate_stage import CheckedGeneration, check_generate
from posttrain.compiler.stages.train_stage import CheckedTraining, check_training
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.user_files import user_file
from posttrain.spec.artifact_stages import Generate, Script
from posttrain.spec.eval_stages import Benchmark, Evaluate, Gate
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record
from posttrain.spec.train_stage import Train

if TYPE_CHECKING:
    from posttrain.compiler.stages.benchmark_stage import CheckedBenchmark

T = TypeVar("T")


@record(kw_only=True)
class CheckedRecipe:
    """A recipe with everything derived that its plan is made of."""

    named: ResolvedRecipe
    models: Mapping[str, ModelFiles]
    rows: Mapping[str, CompiledDataset]
    graphs: Mapping[str, RewardGraph]
    trainings: Mapping[str, CheckedTraining] = field(default_factory=dict[str, CheckedTraining])
    evals: Mapping[str, CheckedEval] = field(default_factory=dict[str, CheckedEval])
    benchmarks: "Mapping[str, CheckedBenchmark]" = field(default_factory=dict[str, Any])
    generations: Mapping[str, CheckedGeneration] = field(default_factory=dict[str, CheckedGeneration])
    gates: Mapping[str, CheckedGate] = field(default_factory=dict[str, CheckedGate])
    environments: Mapping[str, CheckedEnvironment] = field(default_factory=dict[str, CheckedEnvironment])
    # What the weights of models and stages go back to, by node.
    lineages: Mapping[str, Lineage] = field(default_factory=dict[str, Lineage])
    # The shapes of the declared models, where they are known before anything runs.
    shapes: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    # The user files of script stages, by role.
    files: Mapping[str, Mapping[str, UserFile]] = field(default_factory=dict[str, Mapping[str, UserFile]])


def check_semantics(named: ResolvedRecipe, request: CompileRequest, findings: Diagnostics) -> CheckedRecipe:
    rows = check_datasets(named, request, findings)
    graphs = _build_graphs(named, request, findings)
    found = CheckedRecipe(
        named=named,
        models=check_models(named, request, findings),
        rows=rows,
        graphs=graphs,
        lineages=model_lineages(named),
        shapes=model_shapes(named, request),
        environments=_check_environments(named, rows, graphs, request, findings),
        files=_script_files(named, request, findings),
        **_check_stages(named, rows, graphs, request, findings),
    )
    _check_across_stages(found, request, findings)
    return found


def _build_graphs(
    named: ResolvedRecipe, request: CompileRequest, findings: Diagnostics
) -> dict[str, RewardGraph]:
    endpoints = {**dict.fromkeys(named.recipe.invalid_names), **named.recipe.endpoints}
    found = {
        name: build_graph(reward, ("rewards", name), endpoints, request, findings)
        for name, reward in named.recipe.rewards.items()
    }
    return {name: graph for name, graph in found.items() if graph is not None}


def _check_stages(
    named: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    graphs: Mapping[str, RewardGraph],
    request: CompileRequest,
    findings: Diagnostics,
) -> dict[str, Any]:
    """Each stage by its verb. Those that are mistaken are left out."""
    trainings: dict[str, CheckedTraining | None] = {}
    evals: dict[str, CheckedEval | None] = {}
    generations: dict[str, CheckedGeneration | None] = {}
    for name, stage in named.recipe.stages.items():
        match stage:
            case Train():
                trainings[name] = check_training(name, stage, named, rows, graphs, request, findings)
            case Evaluate():
                evals[name] = check_eval(name, stage, named, rows, graphs, request, findings)
            case Generate():
                generations[name] = check_generate(name, stage, named, rows, graphs, request, findings)
            case _:
                pass
    sound, benchmarks = _drop_none(evals), _check_benchmarks(named, request, findings)
    return {
        "trainings": _drop_none(trainings),
        "evals": sound,
        "benchmarks": benchmarks,
        "generations": _drop_none(generations),
        "gates": _check_gates(named, {**sound, **benchmarks}, findings),
    }


def _check_benchmarks(
    named: ResolvedRecipe, request: CompileRequest, findings: Diagnostics
) -> "dict[str, CheckedBenchmark]":
    """The benchmarks; a recipe without one pays for none of this."""
    stages = {name: one for name, one in named.recipe.stages.items() if isinstance(one, Benchmark)}
    if not stages:
        return {}
    from posttrain.compiler.stages.benchmark_stage import check_benchmark

    found = {name: check_benchmark(name, one, named, request, findings) for name, one in stages.items()}
    return _drop_none(found)


def _drop_none(found: Mapping[str, T | None]) -> dict[str, T]:
    return {name: one for name, one in found.items() if one is not None}


def _check_across_stages(found: CheckedRecipe, request: CompileRequest, findings: Diagnostics) -> None:
    """What takes more than one stage or declaration to see."""
    named = found.named
    trained = trained_models(named, found.trainings, found.lineages, found.shapes)
    check_training_stages(named, found.trainings, trained, request.catalog, findings)
    check_inloop_evals(named, found.trainings, found.evals, findings)
    asked = {
        name: (one.stage, one.inference) for name, one in (*found.evals.items(), *found.generations.items())
    }
    check_inference_lengths(named, asked, found.lineages, found.shapes, findings)
    check_tags(named, found.graphs, found.lineages, request.read, findings)
    check_chat_templates(named, trained, found.rows, request.read, findings)
    check_gpu_requirements(named, trained, findings)
    check_container_images(named.recipe, request, findings)
    if any(_has_code_tests(graph) for graph in found.graphs.values()):
        from posttrain.compiler.checks.sandbox_in_container import check_sandboxes

        check_sandboxes(named, found.graphs, findings)
    if any(one.table.null_counts for one in found.rows.values()):
        from posttrain.compiler.checks.nulls import check_nulls

        check_nulls(named, found.rows, found.graphs, found.trainings, findings)
    check_export_folders(named.recipe, findings)
    check_tracking(named.recipe, request, findings)
    if request.is_unmodified:
        check_unused(named, request.source.name, findings)
        _check_unused_nodes(named, found.graphs, found.evals, findings)


def _has_code_tests(graph: RewardGraph) -> bool:
    return any(op.name == "code_tests" for op in graph.ops)


def _script_files(
    named: ResolvedRecipe, request: CompileRequest, findings: Diagnostics
) -> dict[str, dict[str, UserFile]]:
    found: dict[str, dict[str, UserFile]] = {}
    for name, stage in named.recipe.stages.items():
        for index, file in enumerate(stage.files if isinstance(stage, Script) else ()):
            read = user_file(file, ("stages", name, "files", index), request.read, findings)
            if read is not None:
                found.setdefault(name, {})[file] = read[0]
    return found


def _check_environments(
    named: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    graphs: Mapping[str, RewardGraph],
    request: CompileRequest,
    findings: Diagnostics,
) -> Mapping[str, CheckedEnvironment]:
    """The environments; a recipe in which nobody acts pays for none of this."""
    stages = [stage for stage in named.recipe.stages.values() if isinstance(stage, Train | Evaluate)]
    asked = any(stage.environment is not None for stage in stages)
    told = any(op.name == "environment" for graph in graphs.values() for op in graph.ops)
    if not (named.recipe.environments or asked or told):
        return {}
    from posttrain.compiler.environments.declared_environments import check_environments
    from posttrain.compiler.environments.environment_stages import check_environment_stages

    found = check_environments(named.recipe.environments, request, findings)
    check_environment_stages(named, found, rows, graphs, request, findings)
    return found


def _check_gates(
    named: ResolvedRecipe, evals: Mapping[str, StageWithMetrics], findings: Diagnostics
) -> dict[str, CheckedGate]:
    check_branches(named, findings)
    gates: dict[str, CheckedGate] = {}
    for name, stage in named.recipe.stages.items():
        gate = check_gate(name, stage, named, evals, findings) if isinstance(stage, Gate) else None
        if gate is not None:
            gates[name] = gate
    return gates


def _check_unused_nodes(
    named: ResolvedRecipe,
    graphs: Mapping[str, RewardGraph],
    evals: Mapping[str, CheckedEval],
    findings: Diagnostics,
) -> None:
    for name, graph in graphs.items():
        measured = {
            metric.node.partition(".")[0]
            for found in evals.values()
            if found.stage.reward == name
            for metric in found.metrics.values()
        }
        for node in named.recipe.rewards[name].nodes:
            if node not in graph.used and node not in measured:
                path = ("rewards", name, "nodes", node)
                findings.add(UNUSED_NODE, path, f"nothing uses `{node}`", key=True)
