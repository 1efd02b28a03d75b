"""Places a training stage on the target: checks the settings of the recipe and chooses the rest."""

from collections.abc import Sequence
from typing import Any

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.data.table_schema import TableSchema
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_MODEL, MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.placement.estimate_record import training_estimate_record
from posttrain.compiler.placement.evaluation_stages import inloop_evaluation_notes
from posttrain.compiler.placement.node_layout import (
    divides_over_nodes,
    node_count,
    node_layout_error,
    server_node_count,
)
from posttrain.compiler.placement.out_of_memory import report_out_of_memory
from posttrain.compiler.placement.placement_search import (
    EvaluatedPlacement,
    PlacementConstraints,
    choose_placement,
    divisors,
)
from posttrain.compiler.placement.rollout_engine import (
    chosen_rollout_settings,
    declared_rollout_settings,
    resolve_rollout_engine,
    rollout_engine_error,
)
from posttrain.compiler.placement.stage_placement import StagePlacement
from posttrain.compiler.placement.stage_workload import (
    AuxiliaryModels,
    StageRequirements,
    resolve_precision,
    stage_requirements,
)
from posttrain.compiler.placement.target import Target
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.diagnostic import Code
from posttrain.spec.hardware import Placement
from posttrain.spec.plan import Launch

# The strategies in which no process has the whole weights of a model.
_SHARDED_STRATEGIES = ("zero3", "fsdp")
_TRAIN = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}}"
_GPUS = ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 8xH100-80GB}\n")
_TRAIN_WITH_PLACEMENT = (
    "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 8}, placement: {%s}}"
)
INVALID_PLACEMENT = Code(
    "PT1002",
    "invalid placement",
    "error",
    "Each process needs its own GPU, and the batch must divide evenly over processes and micro-batches."
    " Sharding needs more than one process and does not support 4-bit weights. zero3 and fsdp shard every"
    " model that a stage loads, but a reward model must be whole to compute scores.",
    wrong=minimal_recipe(_GPUS, (_TRAIN, _TRAIN_WITH_PLACEMENT % "num_processes: 16")),
    right=minimal_recipe(_GPUS, (_TRAIN, _TRAIN_WITH_PLACEMENT % "num_processes: 8")),
)
IDLE_GPUS = Code(
    "PT1003",
    "idle GPUs",
    "warning",
    "The batch does not divide over all GPUs of the target, so some of them are idle during training. Change"
    " the batch size, or accept the idle GPUs with `placement: {num_processes: N}`.",
    wrong=minimal_recipe(_GPUS, (_TRAIN, _TRAIN.replace("batch_size: 4", "batch_size: 12"))),
    right=minimal_recipe(_GPUS, (_TRAIN, _TRAIN.replace("batch_size: 4", "batch_size: 16"))),
)
UNKNOWN_SHAPE = Code(
    "PT1004",
    "unknown model architecture",
    "note",
    "Memory and time are computed from the shape of a model, and this model is not in the catalog. The stage"
    " is planned without an estimate, on one GPU or with the placement of the recipe.",
    wrong=minimal_recipe(
        ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 1xH100-80GB}\n"),
        (
            MINIMAL_MODEL,
            "    from: someone/a-model\n    revision: 7ae557604adf67be50417f59c2c2f167def9a775\n",
        ),
    ),
    right=MINIMAL_RECIPE,
)
CODES = (INVALID_PLACEMENT, IDLE_GPUS, UNKNOWN_SHAPE)


def place_training(
    trained_model: TrainedModel,
    target: Target,
    auxiliary: AuxiliaryModels,
    rows: TableSchema | None,
    diagnostics: Diagnostics,
) -> StagePlacement | None:
    constraints = _placement_constraints(trained_model, target, auxiliary, diagnostics)
    if constraints is None:
        return None
    stage = stage_requirements(trained_model, target, auxiliary, rows)
    if stage is None:
        if target.gpus:
            message = f"unknown shape of the model `{trained_model.stage.model}`: no estimate, no placement"
            diagnostics.add(UNKNOWN_SHAPE, (*trained_model.path, "model"), message)
        return _placement_without_estimate(trained_model, target, constraints)
    chosen = choose_placement(stage, constraints, target.device, target.memory_known)
    if target.memory_known and not chosen.estimate.fits:
        report_out_of_memory(trained_model, chosen, target, diagnostics)
    _check_idle_gpus(trained_model, constraints, target, diagnostics)
    notes = inloop_evaluation_notes(trained_model, auxiliary.evals, stage.held_out)
    return _build_placement(trained_model, stage, chosen, constraints, target, notes)


def _declared_placement(trained_model: TrainedModel) -> Placement:
    placement = trained_model.stage.placement
    return placement if isinstance(placement, Placement) else Placement()


def _placement_constraints(
    trained_model: TrainedModel, target: Target, auxiliary: AuxiliaryModels, diagnostics: Diagnostics
) -> PlacementConstraints | None:
    """Return the placement settings of the recipe, completed from the batch size, or None if they are
    invalid."""
    requested, foot = _declared_placement(trained_model), trained_model.method.footprint
    batch = foot.examples(trained_model.training.params)
    rollouts = requested.rollouts
    server = (rollouts.gpus or 1) if rollouts.mode == "server" and foot.completions else 0
    room = _max_gpus(requested, server, target)
    refused = frozenset(m for m in divisors(batch) if not _allows_micro_batch(trained_model, m))
    processes = requested.num_processes or (
        _max_processes(batch, room, refused, target) if target.gpus else 1
    )
    problem = _placement_error(trained_model, requested, processes, server, room, batch, target)
    problem = problem or _sharding_error(trained_model, requested, auxiliary)
    if problem:
        diagnostics.add(INVALID_PLACEMENT, _placement_path(trained_model), problem)
        return None
    layout = node_layout_error(requested, processes, server, target)
    if layout is not None:
        code, message, help = layout
        diagnostics.add(code, _placement_path(trained_model), message, help=help)
        return None
    strategy = requested.strategy if requested.strategy != "auto" else None
    return PlacementConstraints(
        processes=processes,
        nodes=node_count(processes, target),
        strategy="ddp" if strategy == "single" and processes > 1 else strategy,
        micro_batch_size=trained_model.param_value("micro_batch_size")
        or (None if target.gpus else batch // processes),
        gradient_checkpointing=_declared_checkpointing(trained_model, target),
        engine=resolve_rollout_engine(trained_model, requested, target) if foot.completions else None,
        server_gpus=server,
        server_nodes=server_node_count(processes, server, target),
        gpu_memory_utilization=rollouts.gpu_memory_utilization,
        tensor_parallel_size=rollouts.tensor_parallel_size,
        enable_sleep_mode=rollouts.enable_sleep_mode,
        refused_micro_batches=refused,
        strategies=_allowed_strategies(trained_model, auxiliary),
        memory_headroom=target.memory_headroom,
    )


def _placement_error(
    trained_model: TrainedModel,
    requested: Placement,
    processes: int,
    server: int,
    room: int,
    batch: int,
    target: Target,
) -> str:
    """Return why the placement is invalid, or an empty string."""
    if target.gpus and processes > room:
        return _too_few_gpus_error(processes, server, target)
    if server and not target.gpus:
        return "`mode: server` needs separate GPUs for vLLM, but the target has none"
    micro, parallel = trained_model.param_value("micro_batch_size"), requested.rollouts.tensor_parallel_size
    if batch % (processes * (micro or 1)):
        by = f"{processes} processes" + (f" with micro-batches of {micro}" if micro else "")
        return f"a batch size of {batch} does not divide over {by}"
    if parallel and (server or processes) % parallel:
        return f"`tensor_parallel_size: {parallel}` does not divide {server or processes} GPUs"
    return _strategy_error(trained_model, requested, processes) or rollout_engine_error(
        trained_model, requested, target
    )


def _too_few_gpus_error(processes: int, server: int, target: Target) -> str:
    reserved = f", {server} of them for vLLM" if server else ""
    if processes == 1:
        return f"a process needs its own GPU; the target has {target.processes}{reserved}"
    return f"{processes} processes need {processes} GPUs; the target has {target.processes}{reserved}"


def _strategy_error(trained_model: TrainedModel, requested: Placement, processes: int) -> str:
    """Return why the strategy does not work with the method or its weights, or an empty string."""
    method, foot, strategy = trained_model.method.name, trained_model.method.footprint, requested.strategy
    if strategy == "single" and processes > 1:
        return f"`strategy: single` uses one process, but `num_processes` is {processes}"
    if strategy not in ("auto", "single") and processes == 1:
        return f"`strategy: {strategy}` needs more than one process"
    if strategy != "auto" and strategy not in foot.strategies:
        return f"`{method}` does not support `{strategy}`; it supports {', '.join(foot.strategies)}"
    if strategy in _SHARDED_STRATEGIES and _is_quantized(trained_model):
        return f"`{strategy}` cannot shard quantized weights; use ddp, with a copy on each GPU"
    return ""


def _sharding_error(trained_model: TrainedModel, requested: Placement, auxiliary: AuxiliaryModels) -> str:
    """Return why the strategy does not work with reward models or the adapter, or an empty string."""
    able = _allowed_strategies(trained_model, auxiliary)
    if requested.strategy not in trained_model.method.footprint.strategies or requested.strategy in able:
        return ""
    adapter = trained_model.adapter
    what = (
        f"`{requested.strategy}` does not support this adapter ({adapter.unshardable})"
        if adapter is not None and adapter.unshardable
        else f"a reward model cannot compute scores with weights sharded by `{requested.strategy}`"
    )
    return f"{what}; use one of {', '.join(able)}"


def _allowed_strategies(trained_model: TrainedModel, auxiliary: AuxiliaryModels) -> tuple[str, ...]:
    """Return the strategies that the stage supports."""
    found = trained_model.method.footprint.strategies
    if trained_model.adapter is not None and trained_model.adapter.unshardable:
        found = tuple(name for name in found if name in ("single", "ddp"))
    return tuple(name for name in found if not auxiliary.scorers or name not in _SHARDED_STRATEGIES)


def _is_quantized(trained_model: TrainedModel) -> bool:
    adapter, model = trained_model.adapter, trained_model.base_model
    return (adapter is not None and adapter.type == "qlora") or (
        model is not None and model.quantize != "none"
    )


def _placement_path(trained_model: TrainedModel) -> KeyPath:
    return (
        *trained_model.path,
        "placement" if isinstance(trained_model.stage.placement, Placement) else "train",
    )


def _allows_micro_batch(trained_model: TrainedModel, micro: int) -> bool:
    """Return whether the loss of the method supports this micro-batch size."""
    changed = trained_model.training.params.model_copy(update={"micro_batch_size": micro})
    try:
        trained_model.method.schedule(changed, 10**9)
    except ValueError:
        return False
    return True


def _max_gpus(requested: Placement, server: int, target: Target) -> int:
    """Return the largest number of GPUs for training. By default, it shares one node with a vLLM server."""
    if requested.num_processes is None and 0 < server < target.gpus:
        return max(0, target.gpus - server)
    return max(0, target.processes - server) if target.gpus else 0


def _max_processes(batch: int, room: int, refused: frozenset[int], target: Target) -> int:
    """Return the largest number of processes that the batch divides over, with a valid micro-batch."""
    found = [n for n in range(1, max(1, room) + 1) if batch % n == 0 and divides_over_nodes(n, target)]
    return next((n for n in reversed(found) if batch // n not in refused), 1)


def _declared_checkpointing(trained_model: TrainedModel, target: Target) -> bool | None:
    written = trained_model.is_param_given("gradient_checkpointing") or not target.gpus
    return bool(trained_model.param_value("gradient_checkpointing")) if written else None


def _check_idle_gpus(
    trained_model: TrainedModel, constraints: PlacementConstraints, target: Target, diagnostics: Diagnostics
) -> None:
    used = constraints.processes + constraints.server_gpus
    if target.gpus and used < target.processes and _declared_placement(trained_model).num_processes is None:
        batch = trained_model.method.footprint.examples(trained_model.training.params)
        message = f"{used} of {target.processes} GPUs are used: a batch of {batch} does not divide over more"
        room = target.processes - constraints.server_gpus
        accepted = f"accept it with `placement: {{num_processes: {constraints.processes}}}`"
        help = f"use a multiple of {room}, or {accepted}"
        diagnostics.add(IDLE_GPUS, (*trained_model.path, "train"), message, help=help)


def _build_placement(
    trained_model: TrainedModel,
    stage: StageRequirements,
    chosen: EvaluatedPlacement,
    constraints: PlacementConstraints,
    target: Target,
    notes: Sequence[str],
) -> StagePlacement:
    params: dict[str, Any] = {"precision": resolve_precision(trained_model, target)}
    if target.gpus:
        params["micro_batch_size"] = chosen.choice.micro_batch_size
        params["gradient_checkpointing"] = chosen.choice.gradient_checkpointing
    return StagePlacement(
        launch=Launch(
            processes=chosen.choice.processes,
            strategy=chosen.choice.strategy,
            nodes=constraints.nodes,
            engine=constraints.engine,
            rollouts=chosen_rollout_settings(chosen, constraints),
        ),
        gpus=chosen.choice.processes + constraints.server_gpus if target.gpus else 0,
        params=params,
        estimate=training_estimate_record(stage, chosen, target, notes),
    )


def _placement_without_estimate(
    trained_model: TrainedModel, target: Target, constraints: PlacementConstraints
) -> StagePlacement:
    """Return one process, or the number in the recipe: without a shape nothing else can be computed."""
    processes = _declared_placement(trained_model).num_processes or 1
    strategy = constraints.strategy or ("single" if processes == 1 else "ddp")
    rollouts = declared_rollout_settings(constraints)
    launch = Launch(
        processes=processes,
        strategy=strategy,
        nodes=node_count(processes, target),
        engine=constraints.engine,
        rollouts=rollouts,
    )
    gpus = processes + constraints.server_gpus if target.gpus else 0
    return StagePlacement(
        launch=launch, gpus=gpus, params={"precision": resolve_precision(trained_model, target)}
    )
