"""The request to stop a run, from a signal handler or another thread."""

import math
import os
import time
from dataclasses import dataclass, field
from typing import NoReturn

from posttrain.runtime.process_tree import become_subreaper, end_descendants

DEFAULT_STOP_SECONDS = 60.0


@dataclass
class StopRequest:
    """Whether a stop was requested. Every runner reads it through `level`."""

    # The time from the first request until the steps that still run are killed.
    seconds: float = DEFAULT_STOP_SECONDS
    _requests: int = 0
    _deadline: float = field(default=math.inf)

    def stop(self, *, now: bool = False) -> None:
        """Stop at the next checkpoint of each step, or now. A second call stops now."""
        # A handler can interrupt this method: each statement leaves a consistent request.
        self._deadline = min(self._deadline, time.monotonic() + self.seconds)
        self._requests = 2 if now else self._requests + 1

    @property
    def level(self) -> int:
        """0 none, 1 lets steps save their state, 2 kills them: a second request, or the time is over."""
        return min(self._requests, 2) if self.remaining() > 0 else 2

    def remaining(self) -> float:
        """The seconds until steps are killed; infinite without a request."""
        return self._deadline - time.monotonic()


def end_process(status: int) -> NoReturn:
    """End this process and everything that it started, whatever it is doing."""
    become_subreaper()
    end_descendants()
    os._exit(status)
