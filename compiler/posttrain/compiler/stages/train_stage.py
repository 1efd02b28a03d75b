"""Checks training stages: the method, its parameters, the columns that it reads, and its batch sizes."""

from collections.abc import Mapping

from posttrain.compiler.data import data_codes
from posttrain.compiler.data.datasets import CompiledDataset, check_part, table_of
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.parsing.validation_diagnostics import named_key_path, validate
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.rewards.graph import RewardGraph
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath, MappingNode, Node, node_at
from posttrain.spec.column_types import Columns, is_assignable
from posttrain.spec.diagnostic import Code
from posttrain.spec.extension import Method, Params, Schedule
from posttrain.spec.record import record
from posttrain.spec.suggestions import hint
from posttrain.spec.train_stage import Train

UNKNOWN_METHOD = Code(
    "PT0601",
    "unknown training method",
    "error",
    "`train` names a method that comes with posttrain or that an installed package adds.",
    wrong=minimal_recipe(("{train: sft,", "{train: stf,")),
    right=MINIMAL_RECIPE,
)
NO_REWARD = Code(
    "PT0602",
    "missing or unused reward",
    "error",
    "Methods that learn from their own completions need a reward graph. Other methods do not use a reward.",
    wrong=minimal_recipe(("{train: sft,", "{train: sft, reward: right,")),
    right=MINIMAL_RECIPE,
)
UNKNOWN_REWARD = Code(
    "PT0603",
    "unknown reward",
    "error",
    "`reward` names a reward graph that the recipe does not declare. Declare it under `rewards`, or correct"
    " the name.",
    wrong=minimal_recipe(("reward: right,", "reward: rigth,")),
    right=MINIMAL_RECIPE,
)
INCOMPATIBLE_SIZES = Code(
    "PT0604",
    "incompatible batch sizes",
    "error",
    "Batch sizes, numbers of completions and numbers of steps must be multiples of each other as the method"
    " requires. Otherwise a step cannot be filled, and the training fails hours later.",
    wrong=minimal_recipe(("batch_size: 4", "batch_size: 4, micro_batch_size: 3")),
    right=MINIMAL_RECIPE,
)
CODES = (UNKNOWN_METHOD, NO_REWARD, UNKNOWN_REWARD, INCOMPATIBLE_SIZES)


@record(kw_only=True)
class CheckedTraining:
    """A checked training stage."""

    stage: Train
    method: Method
    params: Params
    graph: RewardGraph | None
    # None if the number of rows is not known before the run.
    schedule: Schedule | None
    # Checkpoints are saved at multiples of this many steps; None if the sizes are incompatible.
    boundary: int | None


def check_training(
    name: str,
    stage: Train,
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    graphs: Mapping[str, RewardGraph],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> CheckedTraining | None:
    path: KeyPath = ("stages", name)
    method = request.catalog.find("method", stage.train)
    if not isinstance(method, Method):
        help, meant = hint(stage.train, request.catalog.names("method"), what="methods")
        message = f"there is no training method `{stage.train}`"
        diagnostics.add(UNKNOWN_METHOD, (*path, "train"), message, help=help, replace=meant)
        method = request.catalog.find("method", meant) if meant is not None else None
    if not isinstance(method, Method):  # with a suggested method, the rest of the stage is checked too
        return None
    where = (*path, "params") if stage.params else path
    node = (
        node_at(diagnostics.root, (*path, "params"))[0] if stage.params else _empty_params(diagnostics, path)
    )
    params = validate(method.params, node, where, diagnostics)
    graph = _check_reward(stage, method, path, resolved, graphs, diagnostics)
    table = _check_columns(name, stage, method, graph, resolved, rows, diagnostics)
    if params is None:
        return None
    planned = _check_schedule(method, params, table, where, node, diagnostics)
    return CheckedTraining(
        stage=stage,
        method=method,
        params=params,
        graph=graph,
        schedule=planned
        if table is not None and planned is not None and not planned.is_upper_bound
        else None,
        boundary=planned.checkpoint_alignment if planned else None,
    )


def _empty_params(diagnostics: Diagnostics, path: KeyPath) -> MappingNode:
    return MappingNode({}, diagnostics.span(path))


def resolve_reward(
    name: str,
    path: KeyPath,
    resolved: ResolvedRecipe,
    graphs: Mapping[str, RewardGraph],
    diagnostics: Diagnostics,
) -> RewardGraph | None:
    """Return the graph that a stage names, or None if it does not exist or is invalid."""
    if name not in resolved.recipe.rewards and name not in resolved.recipe.invalid_names:
        help, meant = hint(name, resolved.recipe.rewards, what="rewards")
        message = f"there is no reward `{name}`"
        labels = diagnostics.removal_labels(name, "rewards")
        diagnostics.add(UNKNOWN_REWARD, path, message, help=help, labels=labels, replace=meant)
    return graphs.get(name)


def _check_reward(
    stage: Train,
    method: Method,
    path: KeyPath,
    resolved: ResolvedRecipe,
    graphs: Mapping[str, RewardGraph],
    diagnostics: Diagnostics,
) -> RewardGraph | None:
    if stage.reward is None:
        if method.needs_reward:
            message = f"`{method.name}` needs a reward"
            diagnostics.add(NO_REWARD, (*path, "train"), message, help="add `reward: NAME`")
        return None
    if not method.needs_reward:
        message = f"`{method.name}` does not use a reward"
        diagnostics.add(NO_REWARD, (*path, "reward"), message, help="remove the key")
        return None
    return resolve_reward(stage.reward, (*path, "reward"), resolved, graphs, diagnostics)


def _check_columns(
    name: str,
    stage: Train,
    method: Method,
    graph: RewardGraph | None,
    resolved: ResolvedRecipe,
    rows: Mapping[str, CompiledDataset],
    diagnostics: Diagnostics,
) -> int | None:
    """Check the columns that the stage reads. Return the number of rows if it is known exactly."""
    ref = resolved.refs.get((f"stage:{name}", "data"))
    table = table_of(ref, rows, resolved) if ref else None
    path: KeyPath = ("stages", name, "data")
    if ref is None or table is None or not check_part(ref, table, path, diagnostics):
        return None
    if table.columns and matching_columns(method, table.columns) is None:
        required = " or ".join(columns_text(columns) for columns in method.accepts)
        message = f"`{stage.train}` reads {required}; the data has {columns_text(table.columns)}"
        from posttrain.compiler.data.dataset_formats import column_advice

        help = column_advice(table.columns, method.accepts)
        diagnostics.add(data_codes.MISSING_COLUMN, path, message, help=help)
    elif graph is not None:
        check_reward_columns(graph, table.columns, path, diagnostics)
    return table.max_rows(ref.part) if table.exact else None


def check_reward_columns(
    graph: RewardGraph, columns: Columns, path: KeyPath, diagnostics: Diagnostics
) -> None:
    """Check that the data has the columns that a reward reads, other than the completion."""
    for name, type in graph.reads.items():
        if name == "completion" or not columns:
            continue
        if name not in columns:
            help, _ = hint(name, columns, what="columns")
            message = f"the reward reads the column `{name}`, which the data does not have"
            diagnostics.add(data_codes.MISSING_COLUMN, path, message, help=help)
        elif not is_assignable(type, columns[name]):
            message = f"the reward reads `{name}` as {type}, but its type in the data is {columns[name]}"
            diagnostics.add(data_codes.MISSING_COLUMN, path, message)


def _has_columns(columns: Columns, required: Columns) -> bool:
    # Columns of type `any` are stored as JSON: a method would train on its braces and quotes.
    return all(
        name in columns and columns[name] != "any" and is_assignable(type, columns[name])
        for name, type in required.items()
    )


def matching_columns(method: Method, columns: Columns) -> Columns | None:
    """Return the first of the method's column sets that the columns contain."""
    return next((required for required in method.accepts if _has_columns(columns, required)), None)


def columns_text(columns: Columns) -> str:
    return ", ".join(f"{name} ({type})" for name, type in columns.items())


def _check_schedule(
    method: Method, params: Params, rows: int | None, path: KeyPath, node: Node, diagnostics: Diagnostics
) -> Schedule | None:
    try:
        # If the number of rows is unknown, any large number checks the rest of the schedule.
        return method.schedule(params, rows if rows is not None else 10**9)
    except ValueError as error:
        diagnostics.add(INCOMPATIBLE_SIZES, named_key_path(path, node, str(error)), str(error))
        return None
