"""Handles Ctrl-C. The first one stops the run at the next checkpoint, the second one immediately."""

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from posttrain.runtime.execution.stop_request import StopRequest


@contextmanager
def handle_interrupts(stopping: StopRequest, note: Callable[[str], None]) -> Generator[None]:
    def request_stop(*_: Any) -> None:
        stopping.stop()
        if stopping.level == 1:
            note("stopping at the next checkpoint; interrupt again to stop immediately")

    previous = {number: signal.signal(number, request_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
