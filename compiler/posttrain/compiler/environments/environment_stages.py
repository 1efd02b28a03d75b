"""Checks the stages that use an environment: it exists, the method supports it, and the data has its
columns."""

from collections.abc import Mapping

from posttrain.compiler.data import data_codes
from posttrain.compiler.data.datasets import CompiledDataset, table_of
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.environments.checked_environment import CheckedEnvironment
from posttrain.compiler.environments.environment_codes import (
    BAD_ENVIRONMENT_REWARD,
    NOT_MULTI_TURN,
    UNKNOWN_ENVIRONMENT,
)
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.rewards.graph import RewardGraph
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.column_types import Interval, is_assignable
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.extension import Method
from posttrain.spec.recipe import AnyStage
from posttrain.spec.suggestions import hint
from posttrain.spec.train_stage import Train

_OP = "environment"


def check_environment_stages(
    resolved: ResolvedRecipe,
    worlds: Mapping[str, CheckedEnvironment],
    rows: Mapping[str, CompiledDataset],
    graphs: Mapping[str, RewardGraph],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> None:
    for name, stage in resolved.recipe.stages.items():
        path: KeyPath = ("stages", name)
        if isinstance(stage, Train | Evaluate) and stage.environment is not None:
            _check_exists(stage.environment, path, resolved, diagnostics)
            _check_environment_columns(name, worlds.get(stage.environment), resolved, rows, diagnostics)
        if isinstance(stage, Train):
            _check_method(stage, path, request, diagnostics)
        if isinstance(stage, Train | Evaluate | Generate) and stage.reward is not None:
            _check_environment_rewards(stage, path, worlds, graphs.get(stage.reward), diagnostics)


def _check_exists(
    environment: str, path: KeyPath, resolved: ResolvedRecipe, diagnostics: Diagnostics
) -> None:
    if environment in resolved.recipe.environments or environment in resolved.recipe.invalid_names:
        return
    help, meant = hint(environment, resolved.recipe.environments, what="environments")
    message = f"there is no environment `{environment}`"
    diagnostics.add(UNKNOWN_ENVIRONMENT, (*path, "environment"), message, help=help, replace=meant)


def _check_environment_columns(
    stage: str,
    environment: CheckedEnvironment | None,
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    diagnostics: Diagnostics,
) -> None:
    ref = resolved.refs.get((f"stage:{stage}", "data"))
    table = table_of(ref, rows, resolved) if ref else None
    if environment is None or table is None or not table.columns:
        return
    for column, type in environment.columns.items():
        actual = table.columns.get(column)
        if actual is not None and is_assignable(type, actual):
            continue
        what = "which the data does not have" if actual is None else f"whose type in the data is {actual}"
        message = f"the environment reads the column `{column}` ({type}), {what}"
        help, _ = hint(column, table.columns, what="columns")
        diagnostics.add(data_codes.MISSING_COLUMN, ("stages", stage, "data"), message, help=help)


def _check_method(stage: Train, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics) -> None:
    method = request.catalog.find("method", stage.train)
    if stage.environment is not None and isinstance(method, Method) and not method.multi_turn:
        able = [name for name in request.catalog.names("method") if _is_multi_turn(name, request)]
        message = f"`{stage.train}` does not support environments"
        diagnostics.add(
            NOT_MULTI_TURN, (*path, "environment"), message, help=f"methods with support: {', '.join(able)}"
        )


def _is_multi_turn(name: str, request: CompileRequest) -> bool:
    method = request.catalog.find("method", name)
    return isinstance(method, Method) and method.multi_turn


def _check_environment_rewards(
    stage: AnyStage,
    path: KeyPath,
    worlds: Mapping[str, CheckedEnvironment],
    graph: RewardGraph | None,
    diagnostics: Diagnostics,
) -> None:
    """Check that the declared range of the op `environment` holds the scores of the environment of the
    stage."""
    nodes = [node for node in graph.nodes if node["op"] == _OP] if graph else []
    environment = None if isinstance(stage, Generate) else getattr(stage, "environment", None)
    if nodes and environment is None:
        message = "the reward uses the op `environment`, but this stage has no environment"
        diagnostics.add(BAD_ENVIRONMENT_REWARD, (*path, "reward"), message, help="add `environment: NAME`")
    world = worlds.get(environment) if environment is not None else None
    if world is None:
        return
    for node in nodes:
        declared = Interval(node["params"]["low"], node["params"]["high"])
        if node["params"]["metric"] == "score" and declared.join(world.range) != declared:
            message = (
                f"the reward node `{node['id']}` declares the score range {declared}; the range of"
                f" `{environment}` is {world.range}"
            )
            help = f"set `low: {world.range.low:g}` and `high: {world.range.high:g}` in that node"
            diagnostics.add(BAD_ENVIRONMENT_REWARD, (*path, "reward"), message, help=help)
