"""What the processes of a step say when they fail, and which of them is the cause.

When one is gone, the others fail for want of it: they learn it from the network, often first.
"""

import errno
import os
import signal
import time
import traceback
from pathlib import Path

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import FAILED, NO_SPACE, StepError, as_step_error, failure_record


def clear_failures(work: Path, world_size: int) -> None:
    """Take away what the processes of an earlier attempt have said."""
    for rank in range(world_size):
        _failure_path(work, rank).unlink(missing_ok=True)


def record_failure(work: Path, rank: int, error: BaseException) -> int:
    """Write down why a process fails, and when; the status that it ends with."""
    at = time.monotonic()  # one clock for all processes of the machine
    try:
        atomic_io.write_json(_failure_path(work, rank), {**failure_record(as_step_error(error)), "at": at})
        if not isinstance(error, StepError):
            traceback.print_exception(error)
    except OSError:
        return NO_SPACE
    return FAILED


def first_failure(work: Path, failed: dict[int, int], world_size: int) -> StepError:
    """What the first to fail has said, or that it was ended before it could say anything.

    Libraries abort a process whose peer is gone: one that aborted is only blamed where no other is.
    """
    reported = {
        rank: note for rank in failed if (note := atomic_io.read_json(_failure_path(work, rank))) is not None
    }
    silent = {rank: code for rank, code in failed.items() if rank not in reported}
    killed = [rank for rank, code in silent.items() if code != -signal.SIGABRT]
    if killed or not reported:
        rank = (killed or list(silent))[0]
        return _unreported_failure(rank, world_size, silent[rank])
    rank = min(reported, key=lambda rank: reported[rank]["at"])
    note = reported[rank]
    beside = "".join(f"; process {other} {_describe_exit(code)}" for other, code in silent.items())
    message = f"{note['message']} (process {rank} of {world_size}{beside})"
    return StepError(message, note["advice"], retriable=bool(note["retriable"]))


def _unreported_failure(rank: int, world_size: int, code: int) -> StepError:
    if code == NO_SPACE:
        return as_step_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    advice = (
        f"its log is record/{log_name(rank)}; if nobody ended it, memory ran out: lower micro_batch_size, or"
        " give the machine more"
    )
    message = f"process {rank} of {world_size} {_describe_exit(code)}, and the others were ended with it"
    return StepError(message, advice, retriable=code < 0)


def _describe_exit(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with status {code} and said nothing"


def log_name(rank: int) -> str:
    """The name of a process's log, in the record."""
    return f"rank-{rank}.log" if rank else "log"


def _failure_path(work: Path, rank: int) -> Path:
    return work / "scratch" / f"failure-{rank}.json"
