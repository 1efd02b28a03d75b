"""Lays a training stage on the target: what the recipe says of it is checked, the rest chosen."""

from dataclasses import replace
from typing import Any, cast

from posttrain.compiler.checks.subject import Subject
from posttrain.compiler.data.tables import Table
from posttrain.compiler.diagnosis.examples import MINIMAL, minimal
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.placement.choose import Chosen, Given, choose, divisors
from posttrain.compiler.placement.estimates import training_estimate
from posttrain.compiler.placement.fitting import report_misfit
from posttrain.compiler.placement.placed import Placed
from posttrain.compiler.placement.target import Target
from posttrain.compiler.placement.workloads import Asked, Beside, asked, precision
from posttrain.compiler.placement.writing import chosen_rollouts, engine_of, given_rollouts, unserved
from posttrain.compiler.text.tree import Path
from posttrain.spec.diagnostic import Code
from posttrain.spec.hardware import Placement
from posttrain.spec.plan import Launch

# No process has the whole weights of a model.
_DIVIDED = ("zero3", "fsdp")
_TRAIN = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch: 4}}"
_GPUS = ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 8xH100-80GB}\n")
_PLACED = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch: 8}, placement: {%s}}"
IMPOSSIBLE = Code(
    "PT1002",
    "a placement that the target or the batch does not allow",
    "error",
    "A process takes a GPU of its own, and the batch is divided evenly over processes and"
    " micro-batches. Dividing states over processes needs more than one, and weights in 4 bits cannot"
    " be divided. zero3 and fsdp divide every model that a stage loads, and a reward model scores as a"
    " whole.",
    wrong=minimal(_GPUS, (_TRAIN, _PLACED % "processes: 16")),
    right=minimal(_GPUS, (_TRAIN, _PLACED % "processes: 8")),
)
IDLE = Code(
    "PT1003",
    "GPUs that a stage leaves idle",
    "warning",
    "The batch does not divide over all the GPUs of the target, so some of them do nothing while the"
    " stage trains. Another batch would use them; `placement: {processes: N}` says that it is meant.",
    wrong=minimal(_GPUS, (_TRAIN, _TRAIN.replace("batch: 4", "batch: 12"))),
    right=minimal(_GPUS, (_TRAIN, _TRAIN.replace("batch: 4", "batch: 16"))),
)
UNKNOWN_SHAPE = Code(
    "PT1004",
    "a model whose shape is not known",
    "note",
    "Memory and time are computed from the shape of a model, and this one is not in the catalogue. The"
    " stage is planned on one GPU and without an estimate, as the recipe's own placement says where it"
    " gives one.",
    wrong=minimal(
        ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 1xH100-80GB}\n"),
        (
            "    init: {family: qwen2, layers: 2, hidden: 64, heads: 4}\n    tokenizer: {init: characters}\n",
            "    from: someone/a-model\n    revision: 7ae557604adf67be50417f59c2c2f167def9a775\n",
        ),
    ),
    right=MINIMAL,
)
CODES = (IMPOSSIBLE, IDLE, UNKNOWN_SHAPE)


def place_training(
    subject: Subject, target: Target, beside: Beside, rows: Table | None, findings: Findings
) -> Placed | None:
    given = _given(subject, target, beside, findings)
    if given is None:
        return None
    stage = asked(subject, target, beside, rows)
    if stage is None:
        if target.gpus:
            message = f"the shape of `{subject.stage.model}`'s model is not known: no estimate, no placement"
            findings.add(UNKNOWN_SHAPE, (*subject.path, "model"), message)
        return _unknown(subject, target, given)
    chosen = choose(stage, given, target.device, target.bounded)
    if target.bounded and not chosen.estimate.fits:
        report_misfit(subject, chosen, target, findings)
    _check_idle(subject, given, target, findings)
    return _placed(subject, stage, chosen, given, target)


def _wanted(subject: Subject) -> Placement:
    placement = subject.stage.placement
    return placement if isinstance(placement, Placement) else Placement()


def _given(subject: Subject, target: Target, beside: Beside, findings: Findings) -> Given | None:
    """What the recipe says, completed by what follows from the batch; None when it cannot be."""
    wanted, foot = _wanted(subject), subject.method.footprint
    batch = foot.examples(subject.training.params)
    rollouts = wanted.rollouts
    server = (rollouts.gpus or 1) if rollouts.mode == "server" and foot.writes else 0
    room = max(0, target.processes - server) if target.gpus else 0
    refused = frozenset(m for m in divisors(batch) if not _taken(subject, m))
    processes = wanted.processes or (_most(batch, room, refused) if target.gpus else 1)
    problem = _problem(subject, wanted, processes, server, room, batch, target)
    problem = problem or _undivided(subject, wanted, beside)
    if problem:
        findings.add(IMPOSSIBLE, _at(subject), problem)
        return None
    strategy = wanted.strategy if wanted.strategy != "auto" else None
    return Given(
        processes=processes,
        strategy="ddp" if strategy == "single" and processes > 1 else strategy,
        micro=subject.value("micro_batch") or (None if target.gpus else batch // processes),
        checkpointing=_checkpointing(subject, target),
        engine=engine_of(subject, wanted, target) if foot.writes else None,
        server=server,
        utilisation=rollouts.utilisation,
        tensor_parallel=rollouts.tensor_parallel,
        sleep=rollouts.sleep,
        refused=refused,
        strategies=_dividing(subject, beside),
    )


def _problem(
    subject: Subject,
    wanted: Placement,
    processes: int,
    server: int,
    room: int,
    batch: int,
    target: Target,
) -> str:
    """Why the placement cannot be, in a sentence; empty where it can."""
    if target.gpus and processes > room:
        return _no_room(processes, server, target)
    if server and not target.gpus:
        return "`mode: server` gives vLLM GPUs of its own, and the target has none"
    micro, parallel = subject.value("micro_batch"), wanted.rollouts.tensor_parallel
    if batch % (processes * (micro or 1)):
        by = f"{processes} processes" + (f" of {micro} at once" if micro else "")
        return f"a batch of {batch} does not divide over {by}"
    if parallel and (server or processes) % parallel:
        return f"tensor_parallel ({parallel}) does not divide {server or processes} GPUs"
    return _unfit(subject, wanted, processes) or unserved(subject, wanted, target)


def _no_room(processes: int, server: int, target: Target) -> str:
    beside = f", {server} of them vLLM's own" if server else ""
    if processes == 1:
        return f"a process needs a GPU of its own; the target has {target.processes}{beside}"
    return f"{processes} processes need {processes} GPUs; the target has {target.processes}{beside}"


def _unfit(subject: Subject, wanted: Placement, processes: int) -> str:
    """Why a strategy does not go with the method or with its weights."""
    method, foot, strategy = subject.method.name, subject.method.footprint, wanted.strategy
    if strategy == "single" and processes > 1:
        return f"`strategy: single` is one process, and {processes} are asked for"
    if strategy not in ("auto", "single") and processes == 1:
        return f"`strategy: {strategy}` divides over processes, and there is one"
    if strategy != "auto" and strategy not in foot.strategies:
        return f"`{method}` cannot be divided by `{strategy}`; it can by {', '.join(foot.strategies)}"
    if strategy in _DIVIDED and _quantised(subject):
        return f"quantised weights cannot be divided by `{strategy}`; ddp keeps a copy on each GPU"
    return ""


def _undivided(subject: Subject, wanted: Placement, beside: Beside) -> str:
    """Why a strategy that divides all models does not go with those that score."""
    able = _dividing(subject, beside)
    if wanted.strategy not in subject.method.footprint.strategies or wanted.strategy in able:
        return ""
    what = f"a reward model cannot score where `{wanted.strategy}` divides the weights"
    return f"{what}; take one of {', '.join(able)}"


def _dividing(subject: Subject, beside: Beside) -> tuple[str, ...]:
    """The strategies by which the stage can be divided."""
    found = subject.method.footprint.strategies
    return tuple(name for name in found if not beside.scorers or name not in _DIVIDED)


def _quantised(subject: Subject) -> bool:
    adapter, model = subject.adapter, subject.origin
    return (adapter is not None and adapter.kind == "qlora") or (
        model is not None and model.quantize != "none"
    )


def _at(subject: Subject) -> Path:
    return (*subject.path, "placement" if isinstance(subject.stage.placement, Placement) else "train")


def _taken(subject: Subject, micro: int) -> bool:
    """Whether the method's loss allows this micro-batch."""
    changed = replace(cast(Any, subject.training.params), micro_batch=micro)
    try:
        subject.method.schedule(changed, 10**9)
    except ValueError:
        return False
    return True


def _most(batch: int, room: int, refused: frozenset[int]) -> int:
    """The most processes that the batch divides over, with a micro-batch that the loss takes."""
    found = [n for n in range(1, max(1, room) + 1) if batch % n == 0]
    return next((n for n in reversed(found) if batch // n not in refused), 1)


def _checkpointing(subject: Subject, target: Target) -> bool | None:
    written = subject.written("gradient_checkpointing") or not target.gpus
    return bool(subject.value("gradient_checkpointing")) if written else None


def _check_idle(subject: Subject, given: Given, target: Target, findings: Findings) -> None:
    used = given.processes + given.server
    if target.gpus and used < target.processes and _wanted(subject).processes is None:
        batch = subject.method.footprint.examples(subject.training.params)
        message = f"{used} of {target.processes} GPUs are used: a batch of {batch} divides over no more"
        room = target.processes - given.server
        help = f"a multiple of {room} uses all; `placement: {{processes: {given.processes}}}` accepts it"
        findings.add(IDLE, (*subject.path, "train"), message, help=help)


def _placed(subject: Subject, stage: Asked, chosen: Chosen, given: Given, target: Target) -> Placed:
    params: dict[str, Any] = {"precision": precision(subject, target)}
    if target.gpus:
        params["micro_batch"] = chosen.choice.micro
        params["gradient_checkpointing"] = chosen.choice.checkpointing
    return Placed(
        launch=Launch(
            processes=chosen.choice.processes,
            strategy=chosen.choice.strategy,
            engine=given.engine,
            rollouts=chosen_rollouts(chosen, given),
        ),
        gpus=chosen.choice.processes + given.server if target.gpus else 0,
        params=params,
        estimate=training_estimate(stage, chosen, target),
    )


def _unknown(subject: Subject, target: Target, given: Given) -> Placed:
    """One process, or those that the recipe gives: what cannot be computed is not invented."""
    processes = _wanted(subject).processes or 1
    strategy = given.strategy or ("single" if processes == 1 else "ddp")
    rollouts = given_rollouts(given)
    launch = Launch(processes=processes, strategy=strategy, engine=given.engine, rollouts=rollouts)
    gpus = processes + given.server if target.gpus else 0
    return Placed(launch=launch, gpus=gpus, params={"precision": precision(subject, target)})
