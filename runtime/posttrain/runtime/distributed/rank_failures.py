"""Records the failures of a step's processes, and finds the process that caused them.

When one process dies, the others fail with network errors, often before the launcher notices the first.
"""

import errno
import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from posttrain.runtime.errors import FAILED, NO_SPACE, StepError, as_step_error, failure_record
from posttrain.runtime.store.document_files import read_document, write_document
from posttrain.spec.document_json import DocumentError
from posttrain.spec.step_records import RankFailure

# The monotonic clock is comparable between the processes of one machine.
Clock = Callable[[], float]


class RankError(StepError):
    """The failure of the processes of a node."""

    def __init__(self, error: StepError, *, at: float, is_cause: bool) -> None:
        super().__init__(str(error), error.advice, retriable=error.retriable, details=error.details)
        self.at = at
        # Whether a process ended without an error of its own, so that errors of others follow from it.
        self.is_cause = is_cause


def clear_failures(work: Path, world_size: int) -> None:
    """Delete the failure records of an earlier attempt."""
    for rank in range(world_size):
        _failure_path(work, rank).unlink(missing_ok=True)


def record_failure(work: Path, rank: int, error: BaseException, clock: Clock = time.monotonic) -> int:
    """Record why and when a process fails. Returns its exit status."""
    at = clock()
    try:
        failure = RankFailure(**dict(failure_record(as_step_error(error))), at=at)
        write_document(_failure_path(work, rank), failure)
        if not isinstance(error, StepError):  # the worker prints the details of a StepError
            traceback.print_exception(error)
    except OSError:
        return NO_SPACE
    return FAILED


def first_failure(work: Path, failed: dict[int, int], world_size: int) -> RankError:
    """Return the error of the process that failed first, even if it was killed and has no record.

    Libraries abort a process whose peer is gone, so an aborted process is the cause only if no other is.
    """
    reported = {
        rank: note for rank in failed if (note := _read_failure(_failure_path(work, rank))) is not None
    }
    silent = {rank: code for rank, code in failed.items() if rank not in reported}
    killed = [rank for rank, code in silent.items() if code != -signal.SIGABRT]
    if killed or not reported:
        rank = (killed or list(silent))[0]
        error = _unreported_failure(rank, world_size, silent[rank])
        return RankError(error, at=time.time(), is_cause=bool(killed))
    rank = min(reported, key=lambda rank: reported[rank].at)
    note = reported[rank]
    others = "".join(f"; process {other} {_describe_exit(code)}" for other, code in silent.items())
    message = f"{note.message} (process {rank} of {world_size}{others})"
    error = StepError(message, note.advice, retriable=note.retriable, details=note.details)
    return RankError(error, at=note.at, is_cause=False)


def _read_failure(path: Path) -> RankFailure | None:
    try:
        return read_document(RankFailure, path)
    except DocumentError:
        return None


def _unreported_failure(rank: int, world_size: int, code: int) -> StepError:
    if code == NO_SPACE:
        return as_step_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    advice = (
        f"see record/{log_name(rank)}; unless someone killed it, the machine ran out of memory: lower"
        " micro_batch_size, or add memory"
    )
    message = f"process {rank} of {world_size} {_describe_exit(code)}; the other processes were stopped"
    return StepError(message, advice, retriable=code < 0)


def _describe_exit(code: int) -> str:
    if code < 0:
        return f"was killed by signal {-code}"
    return f"exited with status {code} without an error message"


def log_name(rank: int) -> str:
    """Return the file name of a process's log in the record."""
    return f"rank-{rank}.log" if rank else "log"


def _failure_path(work: Path, rank: int) -> Path:
    return work / "scratch" / f"failure-{rank}.json"
