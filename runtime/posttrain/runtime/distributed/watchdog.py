"""Watches another process from a thread, for as long as a stage depends on it.

A library that waits for that process may wait in machine code, without end: NCCL does when the other side
of a transfer is gone. No exception reaches it there, so the thread ends the stage.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from posttrain.runtime import atomic_io
from posttrain.runtime.distributed import process_group, rank_failures
from posttrain.runtime.errors import FAILED, StepError, failure_record

_POLL_SECONDS = 1.0


@contextmanager
def watch_process(
    process: subprocess.Popen[bytes], work: Path, why: Callable[[], StepError], grace: float
) -> Generator[None]:
    """While in here, the end of the process is the end of the stage, which fails by `why`.

    The stage has `grace` seconds to find out for itself.
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
    """Write down why, and leave at once: the main thread does not come back."""
    if process_group.world_size() > 1:
        rank_failures.record_failure(work, process_group.rank(), error)
    else:
        atomic_io.write_json(work / "failure.json", failure_record(error))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(FAILED)
