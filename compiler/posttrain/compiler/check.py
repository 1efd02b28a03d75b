"""The checks over a recipe whose names are resolved: data, rewards, then each stage by its verb."""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

from posttrain.compiler.checks.during import check_during
from posttrain.compiler.checks.image import check_images
from posttrain.compiler.checks.lengths import check_asked_lengths
from posttrain.compiler.checks.pushing import check_pushes
from posttrain.compiler.checks.subject import subjects
from posttrain.compiler.checks.tags import check_tags
from posttrain.compiler.checks.templates import check_templates
from posttrain.compiler.checks.tracking import check_tracking
from posttrain.compiler.checks.trainings import check_trainings
from posttrain.compiler.checks.unused import check_unused
from posttrain.compiler.checks.without_gpu import check_gpu
from posttrain.compiler.data.datasets import Rows, check_datasets
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.environments.world import World
from posttrain.compiler.facts.shapes import Shape
from posttrain.compiler.files import user_file
from posttrain.compiler.models import ModelFiles, check_models, shapes
from posttrain.compiler.resolution.lineage import Line, lines
from posttrain.compiler.resolution.names import Named
from posttrain.compiler.rewards.codes import UNUSED_NODE
from posttrain.compiler.rewards.graph import Graph, build
from posttrain.compiler.stages.branches import check_branches
from posttrain.compiler.stages.evals import Evaluation, Measured, check_eval
from posttrain.compiler.stages.gates import Gating, check_gate
from posttrain.compiler.stages.generation import Generation, check_generate
from posttrain.compiler.stages.training import Training, check_training
from posttrain.compiler.text.source import Request
from posttrain.spec.making import Generate, Script
from posttrain.spec.measuring import Benchmark, Evaluate, Gate
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record
from posttrain.spec.training import Train

if TYPE_CHECKING:
    from posttrain.compiler.stages.benchmarks import Benchmarking

T = TypeVar("T")


@record(kw_only=True)
class Checked:
    """A recipe with everything derived that its plan is made of."""

    named: Named
    models: Mapping[str, ModelFiles]
    rows: Mapping[str, Rows]
    graphs: Mapping[str, Graph]
    trainings: Mapping[str, Training] = field(default_factory=dict[str, Training])
    evals: Mapping[str, Evaluation] = field(default_factory=dict[str, Evaluation])
    benchmarks: "Mapping[str, Benchmarking]" = field(default_factory=dict[str, Any])
    generations: Mapping[str, Generation] = field(default_factory=dict[str, Generation])
    gates: Mapping[str, Gating] = field(default_factory=dict[str, Gating])
    worlds: Mapping[str, World] = field(default_factory=dict[str, World])
    # What the weights of models and stages go back to, by node.
    lines: Mapping[str, Line] = field(default_factory=dict[str, Line])
    # The shapes of the declared models, where they are known before anything runs.
    shapes: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    # The user files of script stages, by role.
    files: Mapping[str, Mapping[str, UserFile]] = field(default_factory=dict[str, Mapping[str, UserFile]])


def check(named: Named, request: Request, findings: Findings) -> Checked:
    rows = check_datasets(named, request, findings)
    graphs = _graphs(named, request, findings)
    found = Checked(
        named=named,
        models=check_models(named, request, findings),
        rows=rows,
        graphs=graphs,
        lines=lines(named),
        shapes=shapes(named, request),
        worlds=_worlds(named, rows, graphs, request, findings),
        files=_script_files(named, request, findings),
        **_stages(named, rows, graphs, request, findings),
    )
    _check_together(found, request, findings)
    return found


def _graphs(named: Named, request: Request, findings: Findings) -> dict[str, Graph]:
    endpoints = {**dict.fromkeys(named.recipe.broken), **named.recipe.endpoints}
    found = {
        name: build(reward, ("rewards", name), endpoints, request, findings)
        for name, reward in named.recipe.rewards.items()
    }
    return {name: graph for name, graph in found.items() if graph is not None}


def _stages(
    named: Named,
    rows: Mapping[str, Rows],
    graphs: Mapping[str, Graph],
    request: Request,
    findings: Findings,
) -> dict[str, Any]:
    """Each stage by its verb. Those that are mistaken are left out."""
    trainings: dict[str, Training | None] = {}
    evals: dict[str, Evaluation | None] = {}
    generations: dict[str, Generation | None] = {}
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
    sound, benchmarks = _sound(evals), _benchmarks(named, request, findings)
    return {
        "trainings": _sound(trainings),
        "evals": sound,
        "benchmarks": benchmarks,
        "generations": _sound(generations),
        "gates": _gates(named, {**sound, **benchmarks}, findings),
    }


def _benchmarks(named: Named, request: Request, findings: Findings) -> "dict[str, Benchmarking]":
    """The benchmarks; a recipe without one pays for none of this."""
    stages = {name: one for name, one in named.recipe.stages.items() if isinstance(one, Benchmark)}
    if not stages:
        return {}
    from posttrain.compiler.stages.benchmarks import check_benchmark

    found = {name: check_benchmark(name, one, named, request, findings) for name, one in stages.items()}
    return _sound(found)


def _sound(found: Mapping[str, T | None]) -> dict[str, T]:
    return {name: one for name, one in found.items() if one is not None}


def _check_together(found: Checked, request: Request, findings: Findings) -> None:
    """What takes more than one stage or declaration to see."""
    named = found.named
    trained = subjects(named, found.trainings, found.lines, found.shapes)
    check_trainings(named, found.trainings, trained, request.catalog, findings)
    check_during(named, found.trainings, found.evals, findings)
    asked = {
        name: (one.stage, one.asking) for name, one in (*found.evals.items(), *found.generations.items())
    }
    check_asked_lengths(named, asked, found.lines, found.shapes, findings)
    check_tags(named, found.graphs, found.lines, request.read, findings)
    check_templates(named, trained, found.rows, request.read, findings)
    check_gpu(named, trained, findings)
    check_images(named.recipe, request, findings)
    if any(_tests_programs(graph) for graph in found.graphs.values()):
        from posttrain.compiler.checks.contained import check_contained

        check_contained(named, found.graphs, findings)
    if any(one.table.gaps for one in found.rows.values()):
        from posttrain.compiler.checks.filled import check_filled

        check_filled(named, found.rows, found.graphs, found.trainings, findings)
    check_pushes(named.recipe, findings)
    check_tracking(named.recipe, request, findings)
    if request.as_written:
        check_unused(named, request.source.name, findings)
        _check_unused_nodes(named, found.graphs, found.evals, findings)


def _tests_programs(graph: Graph) -> bool:
    return any(op.name == "code_tests" for op in graph.ops)


def _script_files(named: Named, request: Request, findings: Findings) -> dict[str, dict[str, UserFile]]:
    found: dict[str, dict[str, UserFile]] = {}
    for name, stage in named.recipe.stages.items():
        for index, file in enumerate(stage.files if isinstance(stage, Script) else ()):
            read = user_file(file, ("stages", name, "files", index), request.read, findings)
            if read is not None:
                found.setdefault(name, {})[file] = read[0]
    return found


def _worlds(
    named: Named,
    rows: Mapping[str, Rows],
    graphs: Mapping[str, Graph],
    request: Request,
    findings: Findings,
) -> Mapping[str, World]:
    """The environments; a recipe in which nobody acts pays for none of this."""
    stages = [stage for stage in named.recipe.stages.values() if isinstance(stage, Train | Evaluate)]
    asked = any(stage.environment is not None for stage in stages)
    told = any(op.name == "environment" for graph in graphs.values() for op in graph.ops)
    if not (named.recipe.environments or asked or told):
        return {}
    from posttrain.compiler.environments.acting import check_acting
    from posttrain.compiler.environments.declared import worlds

    found = worlds(named.recipe.environments, request, findings)
    check_acting(named, found, rows, graphs, request, findings)
    return found


def _gates(named: Named, evals: Mapping[str, Measured], findings: Findings) -> dict[str, Gating]:
    check_branches(named, findings)
    gates: dict[str, Gating] = {}
    for name, stage in named.recipe.stages.items():
        gate = check_gate(name, stage, named, evals, findings) if isinstance(stage, Gate) else None
        if gate is not None:
            gates[name] = gate
    return gates


def _check_unused_nodes(
    named: Named,
    graphs: Mapping[str, Graph],
    evals: Mapping[str, Evaluation],
    findings: Findings,
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
