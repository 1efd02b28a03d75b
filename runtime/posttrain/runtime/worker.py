"""Runs one step in a process of its own: `python -m posttrain.runtime.worker WORK`.

The worker reads WORK/record/step.json and WORK/job.json, runs the entry of the step, and writes a receipt
or a failure at the end. Only these two files report a result.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from posttrain.runtime.catalog import load_entry
from posttrain.runtime.errors import (
    FAILED,
    NO_SPACE,
    STOPPED,
    Interrupted,
    StepError,
    as_step_error,
    failure_record,
)
from posttrain.runtime.events import EventWriter
from posttrain.runtime.hardware_record import hardware_record
from posttrain.runtime.plan_params import read_step, read_step_params
from posttrain.runtime.process_tree import die_with_parent
from posttrain.runtime.step_context import StepContext, StopRequest
from posttrain.runtime.store.document_files import read_document, write_document
from posttrain.runtime.store.workdir import record_digests, write_receipt
from posttrain.runtime.trl_compat.bounded_templates import bound_chat_templates
from posttrain.spec.document_json import DocumentError
from posttrain.spec.step_records import Job

if TYPE_CHECKING:
    from resource import struct_rusage

    from posttrain.runtime.distributed.node_group import NodeGroup


def main(work: Path, group: "NodeGroup | None" = None) -> int:
    """Run the step in `work` and return the exit status. With several nodes, this is node 0 of `group`."""
    began = time.monotonic()
    if _is_void(group):
        return STOPPED
    try:
        context = create_context(work)
        record = record_digests(work / "record")
    except (OSError, StepError) as error:
        return _write_failure(work, error, _measure_cost(began))
    handle_signals(context.stop)
    try:
        run_step(context, group)
    except Interrupted:
        return STOPPED
    except BaseException as error:
        return STOPPED if _is_void(group) else _write_failure(work, error, _measure_cost(began))
    if _is_void(group):
        return STOPPED
    cost = _measure_cost(began)
    peak = context.facts.pop("peak_gpu_mb", None)  # measured in child processes
    cost |= {} if peak is None else {"peak_gpu_mb": round(peak, 1)}
    try:
        context.events.emit("finished", seconds=cost["seconds"], peak_memory_mb=cost["peak_memory_mb"])
        write_receipt(work, context.step.key, context.facts, cost, record)
    except Exception as error:
        return _write_failure(work, error, cost)
    return 0


def _is_void(group: "NodeGroup | None") -> bool:
    """Whether another attempt has the working directory, as after a freeze of this node."""
    return group is not None and group.is_void


def run_step(context: StepContext, group: "NodeGroup | None" = None) -> None:
    """Run the step in the number of processes that the plan sets."""
    bound_chat_templates()
    run = load_entry(context.step.entry)
    if context.step.launch.processes == 1 and group is None:
        run(context)
        return
    from posttrain.runtime.distributed.rank_launcher import ProcessHooks, run_ranks

    run_ranks(context, run, ProcessHooks(die_with_parent, exit_process, peak_gpu_mb), group)


def create_context(work: Path) -> StepContext:
    job = read_job(work)
    out = work / "files"
    if out.exists():
        shutil.rmtree(out)  # from an earlier attempt; only checkpoints carry over
    out.mkdir()
    (work / "receipt.json").unlink(missing_ok=True)
    (work / "failure.json").unlink(missing_ok=True)
    record = work / "record"
    record.mkdir(exist_ok=True)
    events = EventWriter(record / "events.jsonl")
    context = load_context(work, job, out, events)
    hardware = hardware_record(gpus=context.step.resources.gpus > 0)
    events.emit("started", attempt=job.attempt, hardware=hardware)
    return context


def load_context(work: Path, job: Job, out: Path, events: EventWriter) -> StepContext:
    """The context of the step in `work`, with a folder for its product and a log of its events."""
    step = read_step(work / "record" / "step.json")
    return StepContext(
        step=step,
        params=read_step_params(step),
        inputs={role: Path(path) for role, path in job.inputs.items()},
        files={role: Path(path) for role, path in job.files.items()},
        out=out,
        work=work,
        events=events,
    )


def read_job(work: Path) -> Job:
    try:
        return read_document(Job, work / "job.json")
    except DocumentError as error:
        raise StepError(str(error), error.advice) from None


def handle_signals(stop: StopRequest) -> None:
    """SIGTERM requests a stop. The client handles interrupts."""

    def request_stop(_signal: int, _frame: Any) -> None:
        stop.requested = True

    signal.signal(signal.SIGTERM, request_stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _write_failure(work: Path, error: BaseException, cost: dict[str, Any]) -> int:
    """Record the failure of the step; return NO_SPACE when even that fails."""
    failure = as_step_error(error)
    try:
        write_document(work / "failure.json", failure_record(failure, cost), sync=False)
        if failure.details:
            sys.stderr.write(f"{failure}\n{failure.details}\n")
        elif not isinstance(error, StepError):
            traceback.print_exception(error)
    except OSError:
        return NO_SPACE
    return FAILED


def _measure_cost(began: float) -> dict[str, Any]:
    """The time and the peak memory of the step."""
    cost = {
        "seconds": round(time.monotonic() - began, 3),
        "cpu_seconds": round(sum(usage.ru_utime + usage.ru_stime for usage in _resource_usage()), 3),
        "peak_memory_mb": round(peak_memory_mb(), 1),
    }
    gpu = peak_gpu_mb()
    return cost if gpu is None else {**cost, "peak_gpu_mb": round(gpu, 1)}


def peak_memory_mb() -> float:
    """The peak memory of this process, or of its largest child that has exited."""
    return max(usage.ru_maxrss for usage in _resource_usage()) / 1024


def _resource_usage() -> "list[struct_rusage]":
    import resource

    return [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]


def peak_gpu_mb() -> float | None:
    """The peak memory of the most used GPU; None when no GPU was used."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return max(torch.cuda.max_memory_reserved(gpu) for gpu in range(torch.cuda.device_count())) / 2**20


def exit_process(status: int) -> NoReturn:
    """Exit without cleanup. Threads of libraries can block a normal exit, and all results are on the
    disk."""
    with contextlib.suppress(OSError):  # a full disk
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    exit_process(main(Path(sys.argv[1])))
