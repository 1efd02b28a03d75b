"""Ctrl-C once: steps under way keep what they have, and the run ends. Twice: it ends at once."""

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from posttrain.runtime.execution.run_context import RunStop


@contextmanager
def handle_interrupts(stopping: RunStop, note: Callable[[str], None]) -> Generator[None]:
    def ask(*_: Any) -> None:
        stopping.level += 1
        if stopping.level == 1:
            note("stopping at the next checkpoint; interrupt again to stop at once")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
