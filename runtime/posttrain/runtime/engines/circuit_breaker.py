"""Stops the requests of a batch when nearly all of them fail for the same cause.

Each request has a deadline. Where an endpoint fails nearly always, requests that wait for a place would
spend theirs in our own queue, wave after wave, and then report no more than a timeout. The breaker, once
open, lets the rest fail at once, with the cause. It belongs to one batch: the next batch asks again. Replies
that came are kept, and requests that were not sent count as failures like any other.
"""

import threading
from collections import Counter, deque

# Of so many outcomes, the last ones, this share must have failed for the same cause.
_MAX_WINDOW, _MIN_WINDOW, _FAILURE_THRESHOLD = 20, 8, 0.8


class CircuitBreaker:
    def __init__(self, requests: int) -> None:
        self._window = min(_MAX_WINDOW, max(_MIN_WINDOW, requests // 4))
        self._outcomes: deque[str] = deque(maxlen=self._window)
        self._lock = threading.Lock()
        # Why nothing more is asked, once that is so.
        self.open_reason = ""
        self.timed_out = False

    @classmethod
    def disabled(cls) -> "CircuitBreaker":
        """A breaker that never opens."""
        breaker = cls(0)
        breaker._window = 0
        return breaker

    def record(self, cause: str, *, late: bool = False) -> None:
        """What came of a request: the cause of its failure, or nothing."""
        with self._lock:
            self._outcomes.append(cause)
            # Those without a reply have each cost all the time that there was: few are enough.
            needed = min(self._window, _MIN_WINDOW) if late else self._window
            last = list(self._outcomes)[-needed:] if needed else []
            if self.open_reason or not needed or len(last) < needed:
                return
            worst, times = Counter(last).most_common(1)[0]
            if worst and times >= _FAILURE_THRESHOLD * needed:
                self.timed_out = late
                self.open_reason = f"not asked: {times} of the last {needed} requests failed: {worst}"
