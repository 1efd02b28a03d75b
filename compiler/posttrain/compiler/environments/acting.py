"""Stages that act in an environment: what they name exists, suits them, and has the rows that it needs."""

from collections.abc import Mapping

from posttrain.compiler.data import codes as data_codes
from posttrain.compiler.data.datasets import Rows, table_of
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.environments.codes import CANNOT_ACT, NO_EPISODE, UNKNOWN_ENVIRONMENT
from posttrain.compiler.environments.world import World
from posttrain.compiler.resolution.names import Named
from posttrain.compiler.rewards.graph import Graph
from posttrain.compiler.text.source import Request
from posttrain.compiler.text.tree import Path
from posttrain.spec.extension import Method
from posttrain.spec.making import Generate
from posttrain.spec.measuring import Evaluate
from posttrain.spec.recipe import AnyStage
from posttrain.spec.training import Train
from posttrain.spec.types import Interval, accepts

_OP = "environment"


def check_acting(
    named: Named,
    worlds: Mapping[str, World],
    rows: Mapping[str, Rows],
    graphs: Mapping[str, Graph],
    request: Request,
    findings: Findings,
) -> None:
    for name, stage in named.recipe.stages.items():
        path: Path = ("stages", name)
        if isinstance(stage, Train | Evaluate) and stage.environment is not None:
            _check_exists(stage.environment, path, named, findings)
            _check_rows(name, worlds.get(stage.environment), named, rows, findings)
        if isinstance(stage, Train):
            _check_method(stage, path, request, findings)
        if isinstance(stage, Train | Evaluate | Generate) and stage.reward is not None:
            _check_figures(stage, path, worlds, graphs.get(stage.reward), findings)


def _check_exists(environment: str, path: Path, named: Named, findings: Findings) -> None:
    if environment in named.recipe.environments or environment in named.recipe.broken:
        return
    help, meant = hint(environment, named.recipe.environments, what="environments")
    message = f"there is no environment `{environment}`"
    findings.add(UNKNOWN_ENVIRONMENT, (*path, "environment"), message, help=help, replace=meant)


def _check_rows(
    stage: str, world: World | None, named: Named, rows: Mapping[str, Rows], findings: Findings
) -> None:
    ref = named.refs.get((f"stage:{stage}", "data"))
    table = table_of(ref, rows, named) if ref else None
    if world is None or table is None or not table.columns:
        return
    for column, type in world.columns.items():
        given = table.columns.get(column)
        if given is not None and accepts(type, given):
            continue
        what = "which the data does not have" if given is None else f"which the data has as {given}"
        message = f"the environment reads a column `{column}` ({type}), {what}"
        help, _ = hint(column, table.columns, what="columns")
        findings.add(data_codes.MISSING_COLUMN, ("stages", stage, "data"), message, help=help)


def _check_method(stage: Train, path: Path, request: Request, findings: Findings) -> None:
    method = request.catalog.find("method", stage.train)
    if stage.environment is not None and isinstance(method, Method) and not method.acts:
        able = [name for name in request.catalog.names("method") if _acts(name, request)]
        message = f"`{stage.train}` does not act over several turns"
        findings.add(CANNOT_ACT, (*path, "environment"), message, help=f"methods that do: {', '.join(able)}")


def _acts(name: str, request: Request) -> bool:
    method = request.catalog.find("method", name)
    return isinstance(method, Method) and method.acts


def _check_figures(
    stage: AnyStage, path: Path, worlds: Mapping[str, World], graph: Graph | None, findings: Findings
) -> None:
    """Whether what a reward says of the environment holds for the one of this stage."""
    nodes = [node for node in graph.nodes if node["op"] == _OP] if graph else []
    environment = None if isinstance(stage, Generate) else getattr(stage, "environment", None)
    if nodes and environment is None:
        message = "the reward asks how an episode went, and this stage names no environment"
        findings.add(NO_EPISODE, (*path, "reward"), message, help="add `environment: NAME`")
    world = worlds.get(environment) if environment is not None else None
    if world is None:
        return
    for node in nodes:
        said = Interval(node["params"]["low"], node["params"]["high"])
        if node["params"]["figure"] == "score" and said.join(world.range) != said:
            message = (
                f"the reward's node `{node['id']}` has the score in {said}; that of `{environment}` lies in"
                f" {world.range}"
            )
            help = f"write `low: {world.range.low:g}` and `high: {world.range.high:g}` there"
            findings.add(NO_EPISODE, (*path, "reward"), message, help=help)
