"""The checks over a recipe whose names are resolved: data, rewards, then each stage by its verb."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from posttrain.compiler.checks.image import check_images
from posttrain.compiler.checks.trainings import check_trainings
from posttrain.compiler.checks.unused import check_unused
from posttrain.compiler.data.datasets import Rows, check_datasets, part_of, table_of
from posttrain.compiler.files import user_file
from posttrain.compiler.findings import Findings
from posttrain.compiler.lineage import Line, lines
from posttrain.compiler.models import ModelFiles, check_models
from posttrain.compiler.names import Named
from posttrain.compiler.rewards.codes import UNUSED_NODE
from posttrain.compiler.rewards.graph import Graph, build
from posttrain.compiler.source import Request
from posttrain.compiler.stages.evals import Evaluation, check_eval
from posttrain.compiler.stages.gates import Gating, check_gate
from posttrain.compiler.stages.training import Training, check_training, graph_of
from posttrain.spec.plan import UserFile
from posttrain.spec.stages import Evaluate, Gate, Generate, Script, Train


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A recipe with everything derived that its plan is made of."""

    named: Named
    models: Mapping[str, ModelFiles]
    rows: Mapping[str, Rows]
    graphs: Mapping[str, Graph]
    trainings: Mapping[str, Training] = field(default_factory=dict[str, Training])
    evals: Mapping[str, Evaluation] = field(default_factory=dict[str, Evaluation])
    gates: Mapping[str, Gating] = field(default_factory=dict[str, Gating])
    # What the weights of models and stages go back to, by node.
    lines: Mapping[str, Line] = field(default_factory=dict[str, Line])
    # The user files of script stages, by role.
    files: Mapping[str, Mapping[str, UserFile]] = field(default_factory=dict[str, Mapping[str, UserFile]])


def check(named: Named, request: Request, findings: Findings) -> Checked:
    models = check_models(named, request, findings)
    rows = check_datasets(named, request, findings)
    graphs: dict[str, Graph] = {}
    endpoints = {**dict.fromkeys(named.recipe.broken), **named.recipe.endpoints}
    for name, reward in named.recipe.rewards.items():
        graph = build(reward, ("rewards", name), endpoints, request, findings)
        if graph is not None:
            graphs[name] = graph
    trainings: dict[str, Training] = {}
    evals: dict[str, Evaluation] = {}
    for name, stage in named.recipe.stages.items():
        match stage:
            case Train():
                training = check_training(name, stage, named, rows, graphs, request, findings)
                if training is not None:
                    trainings[name] = training
            case Evaluate():
                evaluation = check_eval(name, stage, named, rows, graphs, findings)
                if evaluation is not None:
                    evals[name] = evaluation
            case Generate():
                _check_generate(name, stage, named, rows, graphs, findings)
            case _:
                pass
    check_trainings(named, trainings, findings)
    check_images(named.recipe, findings)
    check_unused(named, request.source.name, findings)
    _check_unused_nodes(named, graphs, evals, findings)
    return Checked(
        named=named,
        models=models,
        rows=rows,
        graphs=graphs,
        trainings=trainings,
        evals=evals,
        gates=_gates(named, evals, findings),
        lines=lines(named),
        files=_script_files(named, request, findings),
    )


def _script_files(named: Named, request: Request, findings: Findings) -> dict[str, dict[str, UserFile]]:
    found: dict[str, dict[str, UserFile]] = {}
    for name, stage in named.recipe.stages.items():
        for index, file in enumerate(stage.files if isinstance(stage, Script) else ()):
            read = user_file(file, ("stages", name, "files", index), request.read, findings)
            if read is not None:
                found.setdefault(name, {})[file] = read[0]
    return found


def _gates(named: Named, evals: Mapping[str, Evaluation], findings: Findings) -> dict[str, Gating]:
    gates: dict[str, Gating] = {}
    for name, stage in named.recipe.stages.items():
        gate = check_gate(name, stage, named, evals, findings) if isinstance(stage, Gate) else None
        if gate is not None:
            gates[name] = gate
    return gates


def _check_generate(
    name: str,
    stage: Generate,
    named: Named,
    rows: Mapping[str, Rows],
    graphs: Mapping[str, Graph],
    findings: Findings,
) -> None:
    ref = named.refs.get((f"stage:{name}", "data"))
    table = table_of(ref, rows, named) if ref else None
    if ref is not None and table is not None:
        part_of(ref, table, ("stages", name, "data"), findings)
    if stage.reward is not None:
        graph_of(stage.reward, ("stages", name, "reward"), named, graphs, findings)


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
