"""Monitors a process that a stage depends on, from a thread, and ends the stage when that process exits.

A library that waits for the process may block forever in native code, as NCCL does when its peer is gone. No
exception can interrupt that, so the thread ends the stage.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from posttrain.runtime.distributed import process_group, rank_failures
from posttrain.runtime.errors import FAILED, StepError, failure_record
from posttrain.runtime.store.document_files import write_document

_POLL_SECONDS = 1.0


@contextmanager
def watch_process(
    process: subprocess.Popen[bytes], work: Path, why: Callable[[], StepError], grace: float
) -> Generator[None]:
    """In this context, the stage fails with the error of `why` when the process exits.

    The stage has `grace` seconds to fail by itself first.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_POLL_SECONDS):
            if process.poll() is not None and not over.wait(grace):
                _end_stage(work, why())

    thread = threading.Thread(target=watch, name="watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _end_stage(work: Path, error: StepError) -> None:
    """Record the error and exit at once: the main thread may be blocked forever."""
    if process_group.world_size() > 1:
        rank_failures.record_failure(work, process_group.rank(), error)
    else:
        write_document(work / "failure.json", failure_record(error))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(FAILED)
