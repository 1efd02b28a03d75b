"""How a container ended: its status as a process would have it, and memory that ran out by its name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import durable
from posttrain.runtime.faults import StepFault
from posttrain.spec.plan import Step

_BY_SIGNAL = 128
_KILLED = 137
_NO_PROGRAM = (126, 127)  # a shell's, and the small init's, for what cannot be executed


def status_of(state: Mapping[str, Any], work: Path, step: Step, limit: float | None) -> int:
    """The exit status, negative for a signal. What only the outside knows is noted as the failure."""
    code = int(state["ExitCode"])
    if code and starved(state, work):
        note(work, _out_of_memory(step, limit))
    return _BY_SIGNAL - code if code > _BY_SIGNAL else code


def starved(state: Mapping[str, Any], work: Path) -> bool:
    """Whether the kernel ended something in the container for want of memory: by the engine's word,
    or, where only a child of the step was ended, by the step's own."""
    return (code_of(state) == _KILLED and bool(state.get("OOMKilled"))) or (work / "starved.json").exists()


def code_of(state: Mapping[str, Any]) -> int:
    return int(state["ExitCode"])


def worth_taking(state: Mapping[str, Any], work: Path) -> bool:
    """Whether a container that ended unwatched has a result, good or bad. One that was merely ended
    (a restart of the machine, a stop) has none: its step goes on from its checkpoints."""
    return code_of(state) == 0 or starved(state, work) or (work / "failure.json").exists()


def note(work: Path, fault: StepFault) -> None:
    """Leave a fault where the executor looks for the failure of a step."""
    told = {"message": str(fault), "advice": fault.advice, "retriable": fault.retriable}
    durable.write_json(work / "failure.json", told)


def _out_of_memory(step: Step, limit: float | None) -> StepFault:
    estimate = (step.estimate or {}).get("memory_gb")
    had = "all that the machine had" if limit is None else f"its limit of {limit:g} GB"
    planned = "the plan has no estimate for it" if estimate is None else f"the plan estimated {estimate:g} GB"
    return StepFault(
        f"memory ran out: {step.id} used {had}; {planned}",
        "lower micro_batch, turn gradient_checkpointing on, or give the stage more with memory_gb",
    )


def keep_output(container: Any, state: Mapping[str, Any], work: Path) -> None:
    """Add to the log what was said before the worker had it: why Python or the worker did not start."""
    if not code_of(state) or (work / "failure.json").exists():
        return
    said: bytes = container.logs(tail=100)
    with (work / "record" / "log").open("ab") as log:
        log.write(said)
    if code_of(state) in _NO_PROGRAM or b"No module named" in said:
        message = "the image holds no `python` with posttrain inside"
        advice = "use one that does: `make image` builds one, `recipe image check` looks at one"
        note(work, StepFault(message, advice))
