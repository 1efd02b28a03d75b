"""The process that carries one step out: `python -m posttrain.runtime.worker WORK PARENT`.

It reads WORK/step.json and WORK/job.json, runs the step's entry, and ends by writing a receipt or
a failure. Nothing else that it leaves behind counts.
"""

import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from posttrain.runtime import durable
from posttrain.runtime.catalog import load
from posttrain.runtime.context import Context, Stop
from posttrain.runtime.events import EventWriter
from posttrain.runtime.faults import Interrupted, StepFault
from posttrain.spec.plan import step_from

STOPPED = 75  # EX_TEMPFAIL: asked to stop, goes on later
FAILED = 1


def main(work: Path) -> int:
    """Carry the step in `work` out; the exit status says how it ended."""
    began = time.monotonic()
    context = prepare(work)
    signal.signal(signal.SIGTERM, _asker(context.stop))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client decides what an interrupt means
    try:
        load(context.step.entry)(context)
    except Interrupted:
        return STOPPED
    except BaseException as error:
        _record_failure(work, error)
        return FAILED
    seconds = round(time.monotonic() - began, 3)
    peak = round(peak_memory_mb(), 1)
    context.events.emit("finished", seconds=seconds, peak_memory_mb=peak)
    _write_receipt(context, {"seconds": seconds, "peak_memory_mb": peak})
    return 0


def prepare(work: Path) -> Context:
    job: dict[str, Any] = durable.read_json(work / "job.json")
    out = work / "files"
    if out.exists():
        shutil.rmtree(out)  # an earlier attempt's; only checkpoints carry over
    out.mkdir()
    (work / "receipt.json").unlink(missing_ok=True)
    (work / "failure.json").unlink(missing_ok=True)
    record = work / "record"
    record.mkdir(exist_ok=True)
    events = EventWriter(record / "events.jsonl")
    events.emit("started", attempt=job["attempt"])
    return Context(
        step=step_from(durable.read_json(record / "step.json")),
        inputs={role: Path(path) for role, path in job["inputs"].items()},
        files={role: Path(path) for role, path in job["files"].items()},
        out=out,
        work=work,
        events=events,
    )


def _asker(stop: Stop) -> Callable[[int, Any], None]:
    def ask(_signal: int, _frame: Any) -> None:
        stop.asked = True

    return ask


def _write_receipt(context: Context, cost: dict[str, Any]) -> None:
    sizes = {name: path.stat().st_size for name, path in durable.files_in(context.out)}
    receipt = {"key": context.step.key, "sizes": sizes, "facts": context.facts, "cost": cost}
    durable.write_json(context.work / "receipt.json", receipt)


def _record_failure(work: Path, error: BaseException) -> None:
    if isinstance(error, StepFault):
        failure = {"message": str(error), "advice": error.advice, "retriable": error.retriable}
    else:
        traceback.print_exc()
        kind = type(error).__name__
        failure = {"message": f"{kind}: {error}" if str(error) else kind, "advice": "", "retriable": False}
        failure["advice"] = _advice(error)
    durable.write_json(work / "failure.json", failure)


def _advice(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno == 28:
        return "the disk is full: free space and run again; finished steps are kept"
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
        return "memory ran out: lower micro_batch, or turn gradient_checkpointing on"
    return "the step's log has the whole story: `recipe logs STAGE`"


def peak_memory_mb() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def leave(status: int) -> NoReturn:
    """End the process. Libraries leave threads behind that can hold a normal exit up, and all that
    counts is on the disk."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def die_with(parent: int, how: int = signal.SIGKILL) -> None:
    """Have the kernel end this process when the one that started it is gone."""
    import ctypes

    ctypes.CDLL(None).prctl(1, int(how))  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # it was gone before we asked
        os._exit(FAILED)


if __name__ == "__main__":
    die_with(int(sys.argv[2]))
    leave(main(Path(sys.argv[1])))
