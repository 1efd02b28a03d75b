"""Handles Ctrl-C, SIGTERM, and SIGHUP, which a closed terminal sends.

The first signal stops the run at the next checkpoint of each step, and kills it when the time for that is
over. The second one kills it immediately. A thread ends the process if the run itself does not return.
"""

import contextlib
import os
import signal
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from posttrain.runtime.execution.stop_request import StopRequest, end_process

EXIT_INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_SECONDS = 0.2
# The time to record the end of the run after its steps were killed.
_END_SECONDS = 15.0


@contextmanager
def handle_interrupts(stopping: StopRequest, note: Callable[[str], None]) -> Generator[None]:
    ended = Event()

    def request_stop(number: int, _frame: Any) -> None:
        if number == signal.SIGHUP:
            leave_terminal()
        first = not stopping.level
        stopping.stop()
        if first:
            # A handler must not print: it can interrupt a print.
            Thread(target=_end_in_time, args=(stopping, ended, note), daemon=True).start()

    # `nohup` ignores SIGHUP, and a shell ignores SIGINT in background jobs.
    handled = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, request_stop) for number in handled}
    try:
        yield
    finally:
        ended.set()
        for number, handler in previous.items():
            signal.signal(number, handler)


def leave_terminal() -> None:
    """Discard further output to the closed terminal: writing to it is an error."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            with contextlib.suppress(OSError):
                # A closed terminal is no longer a terminal for `isatty`, but still a device.
                if stat.S_ISCHR(os.fstat(stream).st_mode):
                    os.dup2(nowhere, stream)
        os.close(nowhere)


def _end_in_time(stopping: StopRequest, ended: Event, note: Callable[[str], None]) -> None:
    """End the process if the run does not: its main thread can be in a call that does not return."""
    with contextlib.suppress(OSError):  # the terminal is gone
        note(
            f"stopping at the next checkpoint, within {stopping.seconds:g} s; interrupt again to stop"
            " immediately"
        )
    killed_at: float | None = None
    while not ended.wait(_POLL_SECONDS):
        if stopping.level > 1:
            killed_at = killed_at or time.monotonic()
            if time.monotonic() - killed_at > _END_SECONDS:
                end_process(EXIT_INTERRUPTED)
