"""What a stage asks of one device: a checked stage and a choice, as plain numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.data.table_schema import TableSchema
from posttrain.compiler.facts.model_shapes import Shape
from posttrain.compiler.facts.parameter_counts import linear_module_names
from posttrain.compiler.memory.duration import ExpectedWork
from posttrain.compiler.memory.workload import FrozenModel, LoraAdapter, RolloutWorkload, Strategy, Workload
from posttrain.compiler.placement.target import Target
from posttrain.compiler.resolution.lineage import trains_in_float32
from posttrain.spec.inference import Sampling
from posttrain.spec.model_declaration import Model

# What is not known before the data is made, and so assumed; the plan says that it is.
ASSUMED_PROMPT_TOKENS = 512  # tokens of the longest prompt before a completion
MEAN_ROW_SHARE = 0.6  # of the longest length: what a row has on average
MEAN_COMPLETION_SHARE = 0.7  # of the longest: what a completion has on average


class PlacementChoice(NamedTuple):
    """One way to lay a training stage on a target."""

    processes: int
    strategy: Strategy
    micro_batch_size: int  # examples in memory at once, in one process
    gradient_checkpointing: bool
    rollout: RolloutWorkload | None = None


class AuxiliaryModel(NamedTuple):
    """The model that a stage compares with, where it names one."""

    model: Model
    shape: Shape | None


class AuxiliaryModels(NamedTuple):
    """The models that a stage holds beside the one that it trains, and what it does beside training."""

    reference: AuxiliaryModel | None
    scorers: Mapping[str, AuxiliaryModel]
    evals: Sequence[Sampling] = ()  # how the evals on its way have it write


class StageRequirements(NamedTuple):
    """What the choice does not change, so that equal stages are placed once."""

    model: Shape
    length: int
    prompt_tokens: int
    batch_size: int  # examples of an optimizer step, over all processes
    rows_per_example: int
    loss: Literal["chunked", "full", "scores"]
    adapter: LoraAdapter | None
    frozen: tuple[FrozenModel, ...]
    value_model: Shape | None
    element_size: int
    autocast: bool
    completions_per_step: int  # completions written at once, over all processes
    steps: int  # none where nobody can say how many
    row_count_note: str  # what the number of steps goes by, where that is no more than a guess
    evaluation: RolloutWorkload | None = None


def stage_requirements(
    trained_model: TrainedModel, target: Target, auxiliary: AuxiliaryModels, rows: TableSchema | None = None
) -> StageRequirements | None:
    """None while the shape of the model is not known. `rows` is what the stage reads, where that is known."""
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
        adapter=_lora_adapter(trained_model, shape),
        frozen=_frozen_models(trained_model, shape, auxiliary),
        value_model=shape if foot.has_value_model(params) else None,
        element_size=_trained_element_size(trained_model),
        autocast=resolve_precision(trained_model, target) != "float32",
        completions_per_step=foot.completions(params) if foot.completions else 0,
        steps=steps,
        row_count_note=about,
        evaluation=_inloop_eval_rollout(auxiliary.evals, shape),
    )


def _inloop_eval_rollout(evals: Sequence[Sampling], shape: Shape) -> RolloutWorkload | None:
    """The largest batch that evals on the way have written."""
    found = [
        RolloutWorkload(
            "transformers", assumed_prompt_tokens(shape, one), one.max_tokens, one.batch_size * one.n
        )
        for one in evals
    ]
    return max(
        found, key=lambda one: one.sequences * (one.prompt_tokens + one.completion_tokens), default=None
    )


def assumed_prompt_tokens(shape: Shape, sampling: Sampling) -> int:
    """The tokens of the longest prompt of an eval, which nobody knows yet."""
    return max(1, min(ASSUMED_PROMPT_TOKENS, shape.positions - sampling.max_tokens))


def _optimizer_steps(trained_model: TrainedModel, rows: TableSchema | None) -> tuple[int, str]:
    """The optimizer steps, and what they go by where the rows are only guessed."""
    schedule = trained_model.training.schedule
    if schedule is not None:
        return schedule.steps, ""
    written: int | None = trained_model.param_value("max_steps")
    part = trained_model.stage.data.partition(".")[2]
    count = rows.expected_rows(part or None) if rows is not None else None
    if written is not None or count is None or rows is None:
        return written or 0, ""
    try:
        planned = trained_model.method.schedule(trained_model.training.params, count)
    except ValueError:  # reported with the stage's parameters
        return 0, ""
    guess = f"about {count} rows, {rows.estimate_source}"
    return planned.steps, guess if rows.is_estimated(part or None) else f"{count} rows at most"


def build_workload(
    requirements: StageRequirements, choice: PlacementChoice, refused: frozenset[int] = frozenset()
) -> Workload:
    sharded = choice.strategy in ("zero3", "fsdp")
    rows = choice.micro_batch_size * requirements.rows_per_example
    return Workload(
        model=requirements.model,
        length=requirements.length,
        rows=rows,
        rows_per_example=requirements.rows_per_example,
        refused_micro_batches=refused,
        accumulation=max(1, requirements.batch_size // (choice.micro_batch_size * choice.processes)),
        gpus=choice.processes,
        element=2 if requirements.element_size == 2 else 4,
        autocast=requirements.autocast,
        strategy=choice.strategy,
        adapter=requirements.adapter,
        checkpointing=choice.gradient_checkpointing,
        padded=choice.micro_batch_size > 1,
        loss=requirements.loss,
        frozen=tuple(replace(f, rows=rows, sharded=sharded and not f.scores) for f in requirements.frozen),
        value_model=requirements.value_model,
        rollout=choice.rollout,
        evaluation=requirements.evaluation,
    )


def expected_work(requirements: StageRequirements) -> ExpectedWork:
    """How much there is to do, in means."""
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
    wanted: Any = trained_model.param_value("precision")
    if wanted == "auto":
        return "bfloat16" if target.gpus else "float32"
    return wanted or "float32"


def weight_element_size(model: Model | None) -> int:
    """Bytes of a stored weight: published models store two, those from nothing four."""
    if model is None or model.dtype == "float32":
        return 4
    if model.dtype == "auto":
        return 4 if model.init is not None else 2
    return 2


def _trained_element_size(trained_model: TrainedModel) -> int:
    """Bytes of a weight of the model that is trained: a whole one is float32, unless it says otherwise."""
    return (
        4
        if not trained_model.has_adapter and trains_in_float32(trained_model.base_model)
        else weight_element_size(trained_model.base_model)
    )


def _lengths(trained_model: TrainedModel, shape: Shape) -> tuple[int, int]:
    """The longest prompt, where completions follow it, and the longest row."""
    completion = trained_model.param_value("max_completion_length")
    if trained_model.method.footprint.completions is None or completion is None:
        return 0, min(trained_model.param_value("max_length") or 1024, shape.positions)
    prompt = max(1, min(ASSUMED_PROMPT_TOKENS, shape.positions - completion))
    return prompt, prompt + completion


def _lora_adapter(trained_model: TrainedModel, shape: Shape) -> LoraAdapter | None:
    declared, model = trained_model.adapter, trained_model.base_model
    if declared is None or declared.type == "full":
        return None
    quantized = declared.type == "qlora" or (model is not None and model.quantize == "nf4")
    targets = _target_modules(declared.target_modules, shape)
    return LoraAdapter(
        rank=declared.r, target_modules=targets, quantized=quantized, dropout=declared.lora_dropout
    )


def _target_modules(targets: str | list[str], shape: Shape) -> tuple[str, ...]:
    known = linear_module_names(shape)
    if isinstance(targets, str):
        return known if targets == "all-linear" else shape.architecture.lora
    return tuple(name for name in (t.rpartition(".")[2] for t in targets) if name in known)


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
    """The reference: a model of its own where one is named; else the starting weights, which an
    adapter leaves as they were."""
    if not trained_model.method.footprint.has_reference_model(trained_model.training.params):
        return ()
    if reference is not None:
        return (FrozenModel("reference", reference.shape or shape, weight_element_size(reference.model)),)
    return (
        ()
        if trained_model.has_adapter
        else (FrozenModel("reference", shape, _trained_element_size(trained_model)),)
    )
