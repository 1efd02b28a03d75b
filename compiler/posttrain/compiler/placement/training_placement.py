"""Lays a training stage on the target: what the recipe says of it is checked, the rest chosen."""

from dataclasses import replace
from typing import Any, cast

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.data.table_schema import TableSchema
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.placement.estimate_record import training_estimate_record
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

# No process has the whole weights of a model.
_SHARDED_STRATEGIES = ("zero3", "fsdp")
_TRAIN = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}}"
_GPUS = ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 8xH100-80GB}\n")
_TRAIN_WITH_PLACEMENT = (
    "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 8}, placement: {%s}}"
)
INVALID_PLACEMENT = Code(
    "PT1002",
    "a placement that the target or the batch does not allow",
    "error",
    "A process takes a GPU of its own, and the batch is divided evenly over processes and"
    " micro-batches. Dividing states over processes needs more than one, and weights in 4 bits cannot"
    " be divided. zero3 and fsdp divide every model that a stage loads, and a reward model scores as a"
    " whole.",
    wrong=minimal_recipe(_GPUS, (_TRAIN, _TRAIN_WITH_PLACEMENT % "num_processes: 16")),
    right=minimal_recipe(_GPUS, (_TRAIN, _TRAIN_WITH_PLACEMENT % "num_processes: 8")),
)
IDLE_GPUS = Code(
    "PT1003",
    "GPUs that a stage leaves idle",
    "warning",
    "The batch does not divide over all the GPUs of the target, so some of them do nothing while the"
    " stage trains. Another batch would use them; `placement: {num_processes: N}` says that it is meant.",
    wrong=minimal_recipe(_GPUS, (_TRAIN, _TRAIN.replace("batch_size: 4", "batch_size: 12"))),
    right=minimal_recipe(_GPUS, (_TRAIN, _TRAIN.replace("batch_size: 4", "batch_size: 16"))),
)
UNKNOWN_SHAPE = Code(
    "PT1004",
    "a model whose shape is not known",
    "note",
    "Memory and time are computed from the shape of a model, and this one is not in the catalogue. The"
    " stage is planned on one GPU and without an estimate, as the recipe's own placement says where it"
    " gives one.",
    wrong=minimal_recipe(
        ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 1xH100-80GB}\n"),
        (
            "    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}\n    tokenizer: {init: characters}\n",
            "    from: someone/a-model\n    revision: 7ae557604adf67be50417f59c2c2f167def9a775\n",
        ),
    ),
    right=MINIMAL_RECIPE,
)
CODES = (INVALID_PLACEMENT, IDLE_GPUS, UNKNOWN_SHAPE)


def place_training(
    subject: TrainedModel,
    target: Target,
    beside: AuxiliaryModels,
    rows: TableSchema | None,
    findings: Diagnostics,
) -> StagePlacement | None:
    given = _placement_constraints(subject, target, beside, findings)
    if given is None:
        return None
    stage = stage_requirements(subject, target, beside, rows)
    if stage is None:
        if target.gpus:
            message = f"the shape of `{subject.stage.model}`'s model is not known: no estimate, no placement"
            findings.add(UNKNOWN_SHAPE, (*subject.path, "model"), message)
        return _placement_without_estimate(subject, target, given)
    chosen = choose_placement(stage, given, target.device, target.memory_known)
    if target.memory_known and not chosen.estimate.fits:
        report_out_of_memory(subject, chosen, target, findings)
    _check_idle_gpus(subject, given, target, findings)
    return _build_placement(subject, stage, chosen, given, target)


def _declared_placement(subject: TrainedModel) -> Placement:
    placement = subject.stage.placement
    return placement if isinstance(placement, Placement) else Placement()


def _placement_constraints(
    subject: TrainedModel, target: Target, beside: AuxiliaryModels, findings: Diagnostics
) -> PlacementConstraints | None:
    """What the recipe says, completed by what follows from the batch; None when it cannot be."""
    wanted, foot = _declared_placement(subject), subject.method.footprint
    batch = foot.examples(subject.training.params)
    rollouts = wanted.rollouts
    server = (rollouts.gpus or 1) if rollouts.mode == "server" and foot.completions else 0
    room = max(0, target.processes - server) if target.gpus else 0
    refused = frozenset(m for m in divisors(batch) if not _allows_micro_batch(subject, m))
    processes = wanted.num_processes or (_max_processes(batch, room, refused) if target.gpus else 1)
    problem = _placement_error(subject, wanted, processes, server, room, batch, target)
    problem = problem or _reward_model_error(subject, wanted, beside)
    if problem:
        findings.add(INVALID_PLACEMENT, _placement_path(subject), problem)
        return None
    strategy = wanted.strategy if wanted.strategy != "auto" else None
    return PlacementConstraints(
        processes=processes,
        strategy="ddp" if strategy == "single" and processes > 1 else strategy,
        micro_batch_size=subject.param_value("micro_batch_size")
        or (None if target.gpus else batch // processes),
        gradient_checkpointing=_declared_checkpointing(subject, target),
        engine=resolve_rollout_engine(subject, wanted, target) if foot.completions else None,
        server_gpus=server,
        gpu_memory_utilization=rollouts.gpu_memory_utilization,
        tensor_parallel_size=rollouts.tensor_parallel_size,
        enable_sleep_mode=rollouts.enable_sleep_mode,
        refused_micro_batches=refused,
        strategies=_allowed_strategies(subject, beside),
    )


def _placement_error(
    subject: TrainedModel,
    wanted: Placement,
    processes: int,
    server: int,
    room: int,
    batch: int,
    target: Target,
) -> str:
    """Why the placement cannot be, in a sentence; empty where it can."""
    if target.gpus and processes > room:
        return _too_few_gpus_error(processes, server, target)
    if server and not target.gpus:
        return "`mode: server` gives vLLM GPUs of its own, and the target has none"
    micro, parallel = subject.param_value("micro_batch_size"), wanted.rollouts.tensor_parallel_size
    if batch % (processes * (micro or 1)):
        by = f"{processes} processes" + (f" of {micro} at once" if micro else "")
        return f"a batch of {batch} does not divide over {by}"
    if parallel and (server or processes) % parallel:
        return f"tensor_parallel ({parallel}) does not divide {server or processes} GPUs"
    return _strategy_error(subject, wanted, processes) or rollout_engine_error(subject, wanted, target)


def _too_few_gpus_error(processes: int, server: int, target: Target) -> str:
    beside = f", {server} of them vLLM's own" if server else ""
    if processes == 1:
        return f"a process needs a GPU of its own; the target has {target.processes}{beside}"
    return f"{processes} processes need {processes} GPUs; the target has {target.processes}{beside}"


def _strategy_error(subject: TrainedModel, wanted: Placement, processes: int) -> str:
    """Why a strategy does not go with the method or with its weights."""
    method, foot, strategy = subject.method.name, subject.method.footprint, wanted.strategy
    if strategy == "single" and processes > 1:
        return f"`strategy: single` is one process, and {processes} are asked for"
    if strategy not in ("auto", "single") and processes == 1:
        return f"`strategy: {strategy}` divides over processes, and there is one"
    if strategy != "auto" and strategy not in foot.strategies:
        return f"`{method}` cannot be divided by `{strategy}`; it can by {', '.join(foot.strategies)}"
    if strategy in _SHARDED_STRATEGIES and _is_quantized(subject):
        return f"quantised weights cannot be divided by `{strategy}`; ddp keeps a copy on each GPU"
    return ""


def _reward_model_error(subject: TrainedModel, wanted: Placement, beside: AuxiliaryModels) -> str:
    """Why a strategy that divides all models does not go with those that score."""
    able = _allowed_strategies(subject, beside)
    if wanted.strategy not in subject.method.footprint.strategies or wanted.strategy in able:
        return ""
    what = f"a reward model cannot score where `{wanted.strategy}` divides the weights"
    return f"{what}; take one of {', '.join(able)}"


def _allowed_strategies(subject: TrainedModel, beside: AuxiliaryModels) -> tuple[str, ...]:
    """The strategies by which the stage can be divided."""
    found = subject.method.footprint.strategies
    return tuple(name for name in found if not beside.scorers or name not in _SHARDED_STRATEGIES)


def _is_quantized(subject: TrainedModel) -> bool:
    adapter, model = subject.adapter, subject.base_model
    return (adapter is not None and adapter.type == "qlora") or (
        model is not None and model.quantize != "none"
    )


def _placement_path(subject: TrainedModel) -> KeyPath:
    return (*subject.path, "placement" if isinstance(subject.stage.placement, Placement) else "train")


def _allows_micro_batch(subject: TrainedModel, micro: int) -> bool:
    """Whether the method's loss allows this micro-batch."""
    changed = replace(cast(Any, subject.training.params), micro_batch_size=micro)
    try:
        subject.method.schedule(changed, 10**9)
    except ValueError:
        return False
    return True


def _max_processes(batch: int, room: int, refused: frozenset[int]) -> int:
    """The most processes that the batch divides over, with a micro-batch that the loss takes."""
    found = [n for n in range(1, max(1, room) + 1) if batch % n == 0]
    return next((n for n in reversed(found) if batch // n not in refused), 1)


def _declared_checkpointing(subject: TrainedModel, target: Target) -> bool | None:
    written = subject.is_param_given("gradient_checkpointing") or not target.gpus
    return bool(subject.param_value("gradient_checkpointing")) if written else None


def _check_idle_gpus(
    subject: TrainedModel, given: PlacementConstraints, target: Target, findings: Diagnostics
) -> None:
    used = given.processes + given.server_gpus
    if target.gpus and used < target.processes and _declared_placement(subject).num_processes is None:
        batch = subject.method.footprint.examples(subject.training.params)
        message = f"{used} of {target.processes} GPUs are used: a batch of {batch} divides over no more"
        room = target.processes - given.server_gpus
        help = f"a multiple of {room} uses all; `placement: {{num_processes: {given.processes}}}` accepts it"
        findings.add(IDLE_GPUS, (*subject.path, "train"), message, help=help)


def _build_placement(
    subject: TrainedModel,
    stage: StageRequirements,
    chosen: EvaluatedPlacement,
    given: PlacementConstraints,
    target: Target,
) -> StagePlacement:
    params: dict[str, Any] = {"precision": resolve_precision(subject, target)}
    if target.gpus:
        params["micro_batch_size"] = chosen.choice.micro_batch_size
        params["gradient_checkpointing"] = chosen.choice.gradient_checkpointing
    return StagePlacement(
        launch=Launch(
            processes=chosen.choice.processes,
            strategy=chosen.choice.strategy,
            engine=given.engine,
            rollouts=chosen_rollout_settings(chosen, given),
        ),
        gpus=chosen.choice.processes + given.server_gpus if target.gpus else 0,
        params=params,
        estimate=training_estimate_record(stage, chosen, target),
    )


def _placement_without_estimate(
    subject: TrainedModel, target: Target, given: PlacementConstraints
) -> StagePlacement:
    """One process, or those that the recipe gives: what cannot be computed is not invented."""
    processes = _declared_placement(subject).num_processes or 1
    strategy = given.strategy or ("single" if processes == 1 else "ddp")
    rollouts = declared_rollout_settings(given)
    launch = Launch(processes=processes, strategy=strategy, engine=given.engine, rollouts=rollouts)
    gpus = processes + given.server_gpus if target.gpus else 0
    return StagePlacement(launch=launch, gpus=gpus, params={"precision": resolve_precision(subject, target)})
