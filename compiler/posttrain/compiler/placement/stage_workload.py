"""The workload of a checked stage on one device, for a placement choice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from posttrain.compiler.checks.inloop_eval import round_up_to_boundary
from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.data.table_schema import TableSchema
from posttrain.compiler.memory.duration import ExpectedWork
from posttrain.compiler.memory.workload import FrozenModel, LoraAdapter, RolloutWorkload, Strategy, Workload
from posttrain.compiler.placement.adapter_workload import lora_adapter, trained_parameters
from posttrain.compiler.placement.assumed_lengths import (
    ASSUMED_PROMPT_TOKENS,
    MEAN_COMPLETION_SHARE,
    MEAN_ROW_SHARE,
)
from posttrain.compiler.placement.evaluation_stages import InLoopEvalStage, evaluation_work, held_out_work
from posttrain.compiler.placement.held_out_duration import HeldOutWork
from posttrain.compiler.placement.inloop_evaluation import EvaluationWork, largest_batch, uses_rollout_engine
from posttrain.compiler.placement.target import Target
from posttrain.compiler.resolution.lineage import trains_in_float32, weight_element_size
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.model_declaration import Model


class PlacementChoice(NamedTuple):
    """One possible placement of a training stage."""

    processes: int
    strategy: Strategy
    micro_batch_size: int  # examples in memory at a time, per process
    gradient_checkpointing: bool
    rollout: RolloutWorkload | None = None
    nodes: int = 1


class AuxiliaryModel(NamedTuple):
    """A reference model or a reward model of a stage."""

    model: Model
    shape: Shape | None


class AuxiliaryModels(NamedTuple):
    """The models that a stage loads in addition to the trained model, and its evaluations."""

    reference: AuxiliaryModel | None
    scorers: Mapping[str, AuxiliaryModel]
    evals: Sequence[InLoopEvalStage] = ()
    # The number of held-out rows, and a note if it is a guess; None without such rows.
    held_out: tuple[int | None, str] | None = None


class StageRequirements(NamedTuple):
    """The inputs that do not depend on the choice, so that equal stages are placed once."""

    model: Shape
    length: int
    prompt_tokens: int
    batch_size: int  # examples per optimizer step, over all processes
    rows_per_example: int
    loss: Literal["chunked", "full", "scores"]
    adapter: LoraAdapter | None
    trained_parameters: int | None
    frozen: tuple[FrozenModel, ...]
    value_model: Shape | None
    element_size: int
    autocast: bool
    completions_per_step: int  # completions generated at a time, over all processes
    steps: int  # 0 if the number is not known
    row_count_note: str  # the source of the number of rows, if it is a guess
    evaluations: tuple[EvaluationWork, ...] = ()
    held_out: HeldOutWork | None = None
    checkpoints: int = 0


def stage_requirements(
    trained_model: TrainedModel, target: Target, auxiliary: AuxiliaryModels, rows: TableSchema | None = None
) -> StageRequirements | None:
    """Return the requirements, or None if the shape is unknown. `rows` is the dataset of the stage, if
    known."""
    shape = trained_model.shape
    if shape is None:
        return None
    foot, params = trained_model.method.footprint, trained_model.training.params
    prompt, length = _lengths(trained_model, shape)
    steps, about = _optimizer_steps(trained_model, rows)
    return StageRequirements(
        model=shape,
        length=length,
        prompt_tokens=prompt,
        batch_size=foot.examples(params),
        rows_per_example=foot.sequences,
        loss=foot.loss,
        adapter=lora_adapter(trained_model, shape),
        trained_parameters=trained_parameters(trained_model, shape),
        frozen=_frozen_models(trained_model, shape, auxiliary),
        value_model=shape if foot.has_value_model(params) else None,
        element_size=_trained_element_size(trained_model),
        autocast=resolve_precision(trained_model, target) != "float32",
        completions_per_step=foot.completions(params) if foot.completions else 0,
        steps=steps,
        row_count_note=about,
        evaluations=evaluation_work(trained_model, shape, auxiliary.evals, steps),
        held_out=held_out_work(trained_model, auxiliary.held_out, steps),
        checkpoints=_checkpoints(trained_model, steps),
    )


def _checkpoints(trained_model: TrainedModel, steps: int) -> int:
    """Return the number of checkpoints: by default four, and one after the last step."""
    every = trained_model.param_value("save_steps") or max(1, steps // 4)
    return -(-steps // round_up_to_boundary(every, trained_model.training.boundary or 1))


def _optimizer_steps(trained_model: TrainedModel, rows: TableSchema | None) -> tuple[int, str]:
    """Return the number of optimizer steps, and a note if the number of rows is a guess."""
    schedule = trained_model.training.schedule
    if schedule is not None:
        return schedule.steps, ""
    max_steps: int | None = trained_model.param_value("max_steps")
    part = trained_model.stage.data.partition(".")[2]
    count = rows.expected_rows(part or None) if rows is not None else None
    if max_steps is not None or count is None or rows is None:
        return max_steps or 0, ""
    try:
        planned = trained_model.method.schedule(trained_model.training.params, count)
    except ValueError:  # reported with the stage's parameters
        return 0, ""
    guess = f"about {count} rows, {rows.estimate_source}"
    return planned.steps, guess if rows.is_estimated(part or None) else f"at most {count} rows"


def build_workload(
    requirements: StageRequirements, choice: PlacementChoice, refused: frozenset[int] = frozenset()
) -> Workload:
    sharded = choice.strategy in ("zero3", "fsdp")
    shared = uses_rollout_engine(choice.rollout, choice.strategy, adapter=requirements.adapter is not None)
    rows = choice.micro_batch_size * requirements.rows_per_example
    return Workload(
        model=requirements.model,
        length=requirements.length,
        rows=rows,
        rows_per_example=requirements.rows_per_example,
        refused_micro_batches=refused,
        accumulation=max(1, requirements.batch_size // (choice.micro_batch_size * choice.processes)),
        gpus=choice.processes,
        nodes=choice.nodes,
        element=2 if requirements.element_size == 2 else 4,
        autocast=requirements.autocast,
        strategy=choice.strategy,
        adapter=requirements.adapter,
        trained_parameters=requirements.trained_parameters,
        checkpointing=choice.gradient_checkpointing,
        padded=choice.micro_batch_size > 1,
        loss=requirements.loss,
        frozen=tuple(replace(f, rows=rows, sharded=sharded and not f.scores) for f in requirements.frozen),
        value_model=requirements.value_model,
        rollout=choice.rollout,
        evaluation=None if shared else largest_batch(requirements.evaluations),
    )


def expected_work(requirements: StageRequirements) -> ExpectedWork:
    """Return the expected amount of work, with mean lengths."""
    completion = (
        MEAN_COMPLETION_SHARE * (requirements.length - requirements.prompt_tokens)
        if requirements.completions_per_step
        else 0.0
    )
    tokens = (
        requirements.prompt_tokens + completion
        if requirements.completions_per_step
        else MEAN_ROW_SHARE * requirements.length
    )
    return ExpectedWork(
        requirements.steps,
        tokens,
        requirements.batch_size if requirements.completions_per_step else 0,
        completion,
    )


def resolve_precision(trained_model: TrainedModel, target: Target) -> str:
    precision: Any = trained_model.param_value("precision")
    if precision == "auto":
        return "bfloat16" if target.gpus else "float32"
    return precision or "float32"


def _trained_element_size(trained_model: TrainedModel) -> int:
    """Return the bytes per weight of the trained model: full training uses float32 unless `dtype` differs."""
    return (
        4
        if not trained_model.has_adapter and trains_in_float32(trained_model.base_model)
        else weight_element_size(trained_model.base_model)
    )


def _lengths(trained_model: TrainedModel, shape: Shape) -> tuple[int, int]:
    """Return the longest prompt, for methods that generate, and the longest row."""
    completion = trained_model.param_value("max_completion_length")
    if trained_model.method.footprint.completions is None or completion is None:
        return 0, min(trained_model.param_value("max_length") or 1024, shape.positions)
    prompt = max(1, min(ASSUMED_PROMPT_TOKENS, shape.positions - completion))
    return prompt, prompt + completion


def _frozen_models(
    trained_model: TrainedModel, shape: Shape, auxiliary: AuxiliaryModels
) -> tuple[FrozenModel, ...]:
    scorers = tuple(
        FrozenModel(f"reward:{name}", one.shape, weight_element_size(one.model), scores=True)
        for name, one in auxiliary.scorers.items()
        if one.shape is not None
    )
    return (*_reference_model(trained_model, shape, auxiliary.reference), *scorers)


def _reference_model(
    trained_model: TrainedModel, shape: Shape, reference: AuxiliaryModel | None
) -> tuple[FrozenModel, ...]:
    """Return the reference model: the declared one, or a copy of the initial weights. An adapter needs no
    copy."""
    if not trained_model.method.footprint.has_reference_model(trained_model.training.params):
        return ()
    if reference is not None:
        return (FrozenModel("reference", reference.shape or shape, weight_element_size(reference.model)),)
    return (
        ()
        if trained_model.has_adapter
        else (FrozenModel("reference", shape, _trained_element_size(trained_model)),)
    )
