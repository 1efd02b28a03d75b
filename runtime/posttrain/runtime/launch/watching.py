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

from posttrain.runtime import durable
from posttrain.runtime.faults import FAILED, StepFault, failure
from posttrain.runtime.launch import failing, group

_LOOK_SECONDS = 1.0


@contextmanager
def watched(
    process: subprocess.Popen[bytes], work: Path, why: Callable[[], StepFault], grace: float
) -> Generator[None]:
    """While in here, the end of the process is the end of the stage, which fails by `why`.

    The stage has `grace` seconds to find out for itself.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_SECONDS):
            if process.poll() is not None and not over.wait(grace):
                _end(work, why())

    thread = threading.Thread(target=watch, name="watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _end(work: Path, told: StepFault) -> None:
    """Write down why, and leave at once: the main thread does not come back."""
    if group.size() > 1:
        failing.tell(work, group.rank(), told)
    else:
        durable.write_json(work / "failure.json", failure(told))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(FAILED)
