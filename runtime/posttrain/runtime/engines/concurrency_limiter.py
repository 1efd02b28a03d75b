"""An adaptive limit on concurrent requests: starts low, grows on success, halves after a failure."""

import threading
import time

_INITIAL_LIMIT = 4


class ConcurrencyLimiter:
    """Limits the concurrent requests to one endpoint. Shared by all clients and threads of the process."""

    def __init__(self, max_limit: int) -> None:
        self.max_limit = max_limit
        self.limit = float(min(_INITIAL_LIMIT, max_limit))
        self._in_flight = 0
        self._last_decrease = -1.0
        self._has_failed = False
        self._pause = 0.0
        self._changed = threading.Condition()

    def acquire(self, timeout: float) -> float | None:
        """Wait for a slot. Returns the time when it was acquired, or None at a timeout."""
        end = time.monotonic() + timeout
        with self._changed:
            while True:
                now = time.monotonic()
                if now >= end:
                    return None
                if now >= self._pause and self._in_flight < int(self.limit):
                    self._in_flight += 1
                    return now
                resume = self._pause - now if now < self._pause else 1.0
                self._changed.wait(min(resume, end - now))

    def release(self, began: float, *, fine: bool) -> None:
        """Release the slot of a request that started at `began` and succeeded or failed."""
        with self._changed:
            self._in_flight -= 1
            if fine:
                # The limit doubles in each round of requests until the first failure, then grows by one.
                self.limit = min(self.max_limit, self.limit + (1 / self.limit if self._has_failed else 1))
            elif began > self._last_decrease:  # requests from before the last decrease are not new evidence
                self._last_decrease, self._has_failed = time.monotonic(), True
                self.limit = max(1.0, self.limit / 2)
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Pause all requests for a while, as the server requested."""
        with self._changed:
            self._pause = max(self._pause, time.monotonic() + seconds)


_limiters: dict[tuple[str, str, int], ConcurrencyLimiter] = {}
_lock = threading.Lock()


def limiter_for(address: str, model: str, max_limit: int) -> ConcurrencyLimiter:
    """The limiter of an endpoint, shared by all its clients."""
    with _lock:
        return _limiters.setdefault((address, model, max_limit), ConcurrencyLimiter(max_limit))
