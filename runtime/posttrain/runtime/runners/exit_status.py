"""How a container ended: its status as a process would have it, and memory that ran out by its name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.spec.plan import Step

_SIGNAL_BASE = 128
_SIGKILL_CODE = 137
_NOT_EXECUTABLE_CODES = (126, 127)  # a shell's, and the small init's, for what cannot be executed


def process_status(state: Mapping[str, Any], work: Path, step: Step, limit: float | None) -> int:
    """The exit status, negative for a signal. What only the outside knows is noted as the failure."""
    code = int(state["ExitCode"])
    if code and is_out_of_memory(state, work):
        write_failure(work, _out_of_memory_error(step, limit))
    return _SIGNAL_BASE - code if code > _SIGNAL_BASE else code


def is_out_of_memory(state: Mapping[str, Any], work: Path) -> bool:
    """Whether the kernel ended something in the container for want of memory: by the engine's word,
    or, where only a child of the step was ended, by the step's own."""
    return (exit_code(state) == _SIGKILL_CODE and bool(state.get("OOMKilled"))) or (
        work / "oom.json"
    ).exists()


def exit_code(state: Mapping[str, Any]) -> int:
    return int(state["ExitCode"])


def has_result(state: Mapping[str, Any], work: Path) -> bool:
    """Whether a container that ended unwatched has a result, good or bad. One that was merely ended
    (a restart of the machine, a stop) has none: its step goes on from its checkpoints."""
    return exit_code(state) == 0 or is_out_of_memory(state, work) or (work / "failure.json").exists()


def write_failure(work: Path, error: StepError) -> None:
    """Leave an error where the executor looks for the failure of a step."""
    failure = {"message": str(error), "advice": error.advice, "retriable": error.retriable}
    atomic_io.write_json(work / "failure.json", failure)


def _out_of_memory_error(step: Step, limit: float | None) -> StepError:
    estimate = (step.estimate or {}).get("memory_gb")
    had = "all that the machine had" if limit is None else f"its limit of {limit:g} GB"
    planned = "the plan has no estimate for it" if estimate is None else f"the plan estimated {estimate:g} GB"
    return StepError(
        f"memory ran out: {step.id} used {had}; {planned}",
        "lower micro_batch_size, turn gradient_checkpointing on, or give the stage more with memory_gb",
    )


def append_container_log(container: Any, state: Mapping[str, Any], work: Path) -> None:
    """Add to the log what was output before the worker had it: why Python or the worker did not start."""
    if not exit_code(state) or (work / "failure.json").exists():
        return
    output: bytes = container.logs(tail=100)
    with (work / "record" / "log").open("ab") as log:
        log.write(output)
    if exit_code(state) in _NOT_EXECUTABLE_CODES or b"No module named" in output:
        message = "the image holds no `python` with posttrain inside"
        advice = "use one that does: `make image` builds one, `recipe image check` looks at one"
        write_failure(work, StepError(message, advice))
