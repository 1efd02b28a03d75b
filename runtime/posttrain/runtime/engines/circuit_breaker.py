"""Ends the asking for a batch when nearly every request fails for one and the same cause.

Each question has a time to be answered in. Where an endpoint fails nearly always, those that wait for a place
would spend theirs in our own queue, wave after wave, and then say no more than that their time was over. The
fuse lets the rest fail at once, with the cause. It is of one batch: the next one asks again. What has been
answered stays answered, and what was not asked for counts as a failure like any other.
"""

import threading
from collections import Counter, deque

# Of so many outcomes, the last ones, this share must have failed for the same cause.
_MAX_WINDOW, _MIN_WINDOW, _FAILURE_THRESHOLD = 20, 8, 0.8


class CircuitBreaker:
    def __init__(self, questions: int) -> None:
        self._window = min(_MAX_WINDOW, max(_MIN_WINDOW, questions // 4))
        self._outcomes: deque[str] = deque(maxlen=self._window)
        self._lock = threading.Lock()
        # Why nothing more is asked, once that is so.
        self.open_reason = ""
        self.timed_out = False

    @classmethod
    def disabled(cls) -> "CircuitBreaker":
        """One that never blows, for those who would rather wait."""
        fuse = cls(0)
        fuse._window = 0
        return fuse

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
