"""Stops the requests of a batch when nearly all of them fail with the same error.

Each request has a deadline. If an endpoint nearly always fails, queued requests would wait until their own
deadline and report only a timeout. An open breaker fails the remaining requests at once, with the cause. It
belongs to one batch: the next batch tries again. Replies that arrived are kept, and requests that were not
sent count as failures.
"""

import threading
from collections import Counter, deque

# The breaker opens if this share of the last outcomes failed with the same error.
_MAX_WINDOW, _MIN_WINDOW, _FAILURE_THRESHOLD = 20, 8, 0.8


class CircuitBreaker:
    def __init__(self, requests: int) -> None:
        self._window = min(_MAX_WINDOW, max(_MIN_WINDOW, requests // 4))
        self._outcomes: deque[str] = deque(maxlen=self._window)
        self._lock = threading.Lock()
        # Why the breaker is open; empty while it is closed.
        self.open_reason = ""
        self.timed_out = False

    @classmethod
    def disabled(cls) -> "CircuitBreaker":
        """A breaker that never opens."""
        breaker = cls(0)
        breaker._window = 0
        return breaker

    def record(self, cause: str, *, late: bool = False) -> None:
        """Record the outcome of a request: the cause of its failure, or an empty string."""
        with self._lock:
            self._outcomes.append(cause)
            # Each timeout has cost its whole deadline, so a smaller window is enough.
            needed = min(self._window, _MIN_WINDOW) if late else self._window
            recent = list(self._outcomes)[-needed:] if needed else []
            if self.open_reason or not needed or len(recent) < needed:
                return
            common, count = Counter(recent).most_common(1)[0]
            if common and count >= _FAILURE_THRESHOLD * needed:
                self.timed_out = late
                self.open_reason = f"not sent: {count} of the last {needed} requests failed: {common}"
