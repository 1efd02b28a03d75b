"""Errors of a step, their records, and the exit statuses of its process."""

import errno
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posttrain.spec.step_records import Failure

from posttrain.runtime.user_errors import FIX_EXTENSION, extension_traceback

STOPPED = 75  # EX_TEMPFAIL: stopped on request, resumes later
FAILED = 1
NO_SPACE = 74  # EX_IOERR: the failure could not be recorded


class StepError(Exception):
    """An expected failure of a step, with cause and advice. Any other exception is an internal error."""

    def __init__(self, message: str, advice: str = "", *, retriable: bool = False, details: str = "") -> None:
        super().__init__(message)
        self.advice = advice
        self.retriable = retriable
        # Several lines: of a failure in the user's code, its traceback and what it was called with.
        self.details = details


class Interrupted(Exception):
    """The step stopped on request and saved the state from which it resumes."""


def as_step_error(error: BaseException) -> StepError:
    """Convert any exception of a step to a StepError with advice."""
    if isinstance(error, StepError):
        return error
    kind = type(error).__name__
    message = f"{kind}: {error}" if str(error) else kind
    details = extension_traceback(error)
    return StepError(message, FIX_EXTENSION if details else _advice(error), details=details)


def failure_record(error: StepError, cost: Mapping[str, float] | None = None) -> "Failure":
    """The record of a failure."""
    from posttrain.spec.step_records import Failure

    texts = (_without_surrogates(text) for text in (str(error), error.advice, error.details))
    message, advice, details = texts
    return Failure(
        message=message, advice=advice, details=details, retriable=error.retriable, cost=cost or {}
    )


def _without_surrogates(text: str) -> str:
    """A text that UTF-8 can encode: names of files can have other bytes."""
    return text.encode("utf-8", "replace").decode()


def _advice(error: BaseException) -> str:
    full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    if full or os.strerror(errno.ENOSPC) in str(error):  # libraries wrap it in their own errors
        return "the disk is full: free space and run again; finished steps stay in the store"
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
        return "out of memory: lower micro_batch_size, or enable gradient_checkpointing"
    if "probability tensor contains" in str(error):
        return "the model's weights contain NaN or Inf: lower learning_rate, or raise warmup_steps"
    if type(error).__module__.startswith("jinja2."):
        return "the model's chat template rejects these messages: fix the template, or the rows"
    return "see the log of the step for the traceback: `recipe logs STAGE`"
