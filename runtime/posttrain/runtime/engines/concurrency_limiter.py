"""How many requests may be under way: few at first, more while all goes well, half after trouble."""

import threading
import time

_INITIAL_LIMIT = 4


class ConcurrencyLimiter:
    """Lets requests pass to one endpoint. Shared by all threads, and by all who ask it."""

    def __init__(self, max_limit: int) -> None:
        self.max_limit = max_limit
        self.limit = float(min(_INITIAL_LIMIT, max_limit))
        self._in_flight = 0
        self._last_decrease = -1.0
        self._has_failed = False
        self._pause = 0.0
        self._changed = threading.Condition()

    def acquire(self, timeout: float) -> float | None:
        """Wait for a place; the time at which it was given, or None when there was none in time."""
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
        """A request that began then has ended, well or not."""
        with self._changed:
            self._in_flight -= 1
            if fine:
                # Twofold in each round of requests until there is trouble, then by one a round.
                self.limit = min(self.max_limit, self.limit + (1 / self.limit if self._has_failed else 1))
            elif began > self._last_decrease:  # those that began before the last cut tell nothing new
                self._last_decrease, self._has_failed = time.monotonic(), True
                self.limit = max(1.0, self.limit / 2)
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Let no request pass for a while: the server has asked for it."""
        with self._changed:
            self._pause = max(self._pause, time.monotonic() + seconds)


_limiters: dict[tuple[str, str, int], ConcurrencyLimiter] = {}
_lock = threading.Lock()


def limiter_for(address: str, model: str, max_limit: int) -> ConcurrencyLimiter:
    """The limiter of an endpoint: what one who asks has learnt of it, the next one knows."""
    with _lock:
        return _limiters.setdefault((address, model, max_limit), ConcurrencyLimiter(max_limit))
