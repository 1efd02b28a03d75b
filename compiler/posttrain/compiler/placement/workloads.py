"""What a stage asks of one device: a checked stage and a choice, as plain numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from posttrain.compiler.checks.subject import Subject
from posttrain.compiler.data.tables import Table
from posttrain.compiler.facts.parameters import linear_names
from posttrain.compiler.facts.shapes import Shape
from posttrain.compiler.memory.duration import Schedule
from posttrain.compiler.memory.workload import Adapter, Frozen, Rollout, Strategy, Workload
from posttrain.compiler.placement.target import Target
from posttrain.compiler.resolution.lineage import trained_wide
from posttrain.spec.asking import Sampling
from posttrain.spec.models import Model

# What is not known before the data is made, and so assumed; the plan says that it is.
PROMPT = 512  # tokens of the longest prompt before a completion
ROW = 0.6  # of the longest length: what a row has on average
COMPLETION = 0.7  # of the longest: what a completion has on average


class Choice(NamedTuple):
    """One way to lay a training stage on a target."""

    processes: int
    strategy: Strategy
    micro: int  # examples in memory at once, in one process
    checkpointing: bool
    rollout: Rollout | None = None


class Reference(NamedTuple):
    """The model that a stage compares with, where it names one."""

    model: Model
    shape: Shape | None


class Beside(NamedTuple):
    """The models that a stage holds beside the one that it trains, and what it does beside training."""

    reference: Reference | None
    scorers: Mapping[str, Reference]
    evals: Sequence[Sampling] = ()  # how the evals on its way have it write


class Asked(NamedTuple):
    """What the choice does not change, so that equal stages are placed once."""

    model: Shape
    length: int
    prompt: int
    batch: int  # examples of an optimizer step, over all processes
    sequences: int
    loss: Literal["chunked", "full", "scores"]
    adapter: Adapter | None
    frozen: tuple[Frozen, ...]
    value: Shape | None
    element: int
    autocast: bool
    written: int  # completions written at once, over all processes
    steps: int  # none where nobody can say how many
    about: str  # what the number of steps goes by, where that is no more than a guess
    evaluation: Rollout | None = None


def asked(subject: Subject, target: Target, beside: Beside, rows: Table | None = None) -> Asked | None:
    """None while the shape of the model is not known. `rows` is what the stage reads, where that is known."""
    shape = subject.shape
    if shape is None:
        return None
    foot, params = subject.method.footprint, subject.training.params
    prompt, length = _lengths(subject, shape)
    steps, about = _steps(subject, rows)
    return Asked(
        model=shape,
        length=length,
        prompt=prompt,
        batch=foot.examples(params),
        sequences=foot.sequences,
        loss=foot.loss,
        adapter=_adapter(subject, shape),
        frozen=_frozen(subject, shape, beside),
        value=shape if foot.values(params) else None,
        element=_element(subject),
        autocast=precision(subject, target) != "float32",
        written=foot.writes(params) if foot.writes else 0,
        steps=steps,
        about=about,
        evaluation=_evaluation(beside.evals, shape),
    )


def _evaluation(evals: Sequence[Sampling], shape: Shape) -> Rollout | None:
    """The largest batch that evals on the way have written."""
    found = [
        Rollout("transformers", prompt_of(shape, one), one.max_tokens, one.batch * one.samples)
        for one in evals
    ]
    return max(found, key=lambda one: one.sequences * (one.prompt + one.completion), default=None)


def prompt_of(shape: Shape, sampling: Sampling) -> int:
    """The tokens of the longest prompt of an eval, which nobody knows yet."""
    return max(1, min(PROMPT, shape.positions - sampling.max_tokens))


def _steps(subject: Subject, rows: Table | None) -> tuple[int, str]:
    """The optimizer steps, and what they go by where the rows are only guessed."""
    schedule = subject.training.schedule
    if schedule is not None:
        return schedule.steps, ""
    written: int | None = subject.value("steps")
    part = subject.stage.data.partition(".")[2]
    count = rows.expected(part or None) if rows is not None else None
    if written is not None or count is None or rows is None:
        return written or 0, ""
    try:
        planned = subject.method.schedule(subject.training.params, count)
    except ValueError:  # reported with the stage's parameters
        return 0, ""
    guess = f"about {count} rows, {rows.about}"
    return planned.steps, guess if rows.guesses(part or None) else f"{count} rows at most"


def workload(asked: Asked, choice: Choice, refused: frozenset[int] = frozenset()) -> Workload:
    sharded = choice.strategy in ("zero3", "fsdp")
    rows = choice.micro * asked.sequences
    return Workload(
        model=asked.model,
        length=asked.length,
        rows=rows,
        unit=asked.sequences,
        refused=refused,
        accumulation=max(1, asked.batch // (choice.micro * choice.processes)),
        gpus=choice.processes,
        element=2 if asked.element == 2 else 4,
        autocast=asked.autocast,
        strategy=choice.strategy,
        adapter=asked.adapter,
        checkpointing=choice.checkpointing,
        padded=choice.micro > 1,
        loss=asked.loss,
        frozen=tuple(replace(f, rows=rows, sharded=sharded and not f.scores) for f in asked.frozen),
        value=asked.value,
        rollout=choice.rollout,
        evaluation=asked.evaluation,
    )


def amount(asked: Asked) -> Schedule:
    """How much there is to do, in means."""
    completion = COMPLETION * (asked.length - asked.prompt) if asked.written else 0.0
    tokens = asked.prompt + completion if asked.written else ROW * asked.length
    return Schedule(asked.steps, tokens, asked.batch if asked.written else 0, completion)


def precision(subject: Subject, target: Target) -> str:
    wanted: Any = subject.value("precision")
    if wanted == "auto":
        return "bfloat16" if target.gpus else "float32"
    return wanted or "float32"


def element_of(model: Model | None) -> int:
    """Bytes of a stored weight: published models store two, those from nothing four."""
    if model is None or model.dtype == "float32":
        return 4
    if model.dtype == "auto":
        return 4 if model.init is not None else 2
    return 2


def _element(subject: Subject) -> int:
    """Bytes of a weight of the model that is trained: a whole one is float32, unless it says otherwise."""
    return 4 if not subject.adapted and trained_wide(subject.origin) else element_of(subject.origin)


def _lengths(subject: Subject, shape: Shape) -> tuple[int, int]:
    """The longest prompt, where completions follow it, and the longest row."""
    completion = subject.value("max_tokens")
    if subject.method.footprint.writes is None or completion is None:
        return 0, min(subject.value("max_length") or 1024, shape.positions)
    prompt = max(1, min(PROMPT, shape.positions - completion))
    return prompt, prompt + completion


def _adapter(subject: Subject, shape: Shape) -> Adapter | None:
    declared, model = subject.adapter, subject.origin
    if declared is None or declared.kind == "full":
        return None
    quantised = declared.kind == "qlora" or (model is not None and model.quantize == "nf4")
    targets = _matched(declared.targets, shape)
    return Adapter(rank=declared.rank, targets=targets, quantised=quantised, dropout=declared.dropout)


def _matched(targets: str | list[str], shape: Shape) -> tuple[str, ...]:
    known = linear_names(shape)
    if isinstance(targets, str):
        return known if targets == "all" else shape.architecture.lora
    return tuple(name for name in (t.rpartition(".")[2] for t in targets) if name in known)


def _frozen(subject: Subject, shape: Shape, beside: Beside) -> tuple[Frozen, ...]:
    scorers = tuple(
        Frozen(f"reward:{name}", one.shape, element_of(one.model), scores=True)
        for name, one in beside.scorers.items()
        if one.shape is not None
    )
    return (*_reference(subject, shape, beside.reference), *scorers)


def _reference(subject: Subject, shape: Shape, reference: Reference | None) -> tuple[Frozen, ...]:
    """The reference: a model of its own where one is named; else the starting weights, which an
    adapter leaves as they were."""
    if not subject.method.footprint.reference(subject.training.params):
        return ()
    if reference is not None:
        return (Frozen("reference", reference.shape or shape, element_of(reference.model)),)
    return () if subject.adapted else (Frozen("reference", shape, _element(subject)),)
