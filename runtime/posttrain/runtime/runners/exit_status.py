"""Interprets how a container exited: a process exit status, or out of memory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime.errors import StepError, failure_record
from posttrain.runtime.store.document_files import write_document
from posttrain.spec.plan import Step

_SIGNAL_BASE = 128
_SIGKILL_CODE = 137
_NOT_EXECUTABLE_CODES = (126, 127)  # from a shell or the init, for a command that cannot be executed


def process_status(state: Mapping[str, Any], work: Path, step: Step, limit: float | None) -> int:
    """The exit status, negative for a signal. Records an out-of-memory failure."""
    code = int(state["ExitCode"])
    if code and is_out_of_memory(state, work):
        write_failure(work, _out_of_memory_error(step, limit))
    return _SIGNAL_BASE - code if code > _SIGNAL_BASE else code


def is_out_of_memory(state: Mapping[str, Any], work: Path) -> bool:
    """Whether the OOM killer killed a process in the container. The engine reports a kill of the step
    itself; `oom.json` reports a kill of one of its children."""
    return (exit_code(state) == _SIGKILL_CODE and bool(state.get("OOMKilled"))) or (
        work / "oom.json"
    ).exists()


def exit_code(state: Mapping[str, Any]) -> int:
    return int(state["ExitCode"])


def has_result(state: Mapping[str, Any], work: Path) -> bool:
    """Whether a container that exited unwatched has a result, good or bad. A container that was only
    stopped (a reboot, a stop) has none: its step resumes from its checkpoints."""
    return exit_code(state) == 0 or is_out_of_memory(state, work) or (work / "failure.json").exists()


def write_failure(work: Path, error: StepError) -> None:
    """Write an error to the failure file of a step."""
    write_document(work / "failure.json", failure_record(error))


def _out_of_memory_error(step: Step, limit: float | None) -> StepError:
    estimate = (step.estimate or {}).get("memory_gb")
    used = "all memory of the machine" if limit is None else f"its limit of {limit:g} GB"
    planned = "the plan has no estimate" if estimate is None else f"the plan estimated {estimate:g} GB"
    return StepError(
        f"out of memory: {step.id} used {used}; {planned}",
        "lower micro_batch_size, enable gradient_checkpointing, or raise memory_gb of the stage",
    )


def append_container_log(container: Any, state: Mapping[str, Any], work: Path) -> None:
    """Append to the log the output from before the worker: why Python or the worker did not start."""
    if not exit_code(state) or (work / "failure.json").exists():
        return
    output: bytes = container.logs(tail=100)
    with (work / "record" / "log").open("ab") as log:
        log.write(output)
    if exit_code(state) in _NOT_EXECUTABLE_CODES or b"No module named" in output:
        message = "the image has no `python` with posttrain"
        advice = "use an image with posttrain: `make image` builds one, `recipe image check` checks one"
        write_failure(work, StepError(message, advice))
