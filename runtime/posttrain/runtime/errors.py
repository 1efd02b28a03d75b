"""Failures of a step: its error, the record of it, and the exit statuses of its process."""

import errno
import os
from typing import Any

STOPPED = 75  # EX_TEMPFAIL: asked to stop, resumes later
FAILED = 1
NO_SPACE = 74  # EX_IOERR: the failure could not be recorded


class StepError(Exception):
    """A step cannot continue: the cause, and advice. Any other exception is unexpected."""

    def __init__(self, message: str, advice: str = "", *, retriable: bool = False) -> None:
        super().__init__(message)
        self.advice = advice
        self.retriable = retriable


class Interrupted(Exception):
    """The step was asked to stop, and has saved what it needs to resume."""


def as_step_error(error: BaseException) -> StepError:
    """Any exception of a step as a step error, with advice."""
    if isinstance(error, StepError):
        return error
    kind = type(error).__name__
    return StepError(f"{kind}: {error}" if str(error) else kind, _advice(error))


def failure_record(error: StepError) -> dict[str, Any]:
    """A failure as it is recorded."""
    return {"message": str(error), "advice": error.advice, "retriable": error.retriable}


def _advice(error: BaseException) -> str:
    full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    if full or os.strerror(errno.ENOSPC) in str(error):  # libraries wrap it in errors of their own
        return "the disk is full: free space and run again; finished steps are kept"
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
        return "memory ran out: lower micro_batch_size, or turn gradient_checkpointing on"
    if "probability tensor contains" in str(error):
        return "the model's weights are no numbers any more: lower the learning rate, or raise warmup_steps"
    if type(error).__module__.startswith("jinja2."):
        return "the model's chat template cannot write these turns: mend it, or the rows that it refuses"
    return "the step's log has the whole story: `recipe logs STAGE`"
