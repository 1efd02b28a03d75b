"""How many requests may be under way: few at first, more while all goes well, half after trouble."""

import threading
import time

_AT_FIRST = 4


class Throttle:
    """Lets requests pass to one endpoint. Shared by all threads, and by all who ask it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = float(min(_AT_FIRST, most))
        self._under_way = 0
        self._cut = -1.0
        self._troubled = False
        self._pause = 0.0
        self._changed = threading.Condition()

    def enter(self, patience: float) -> float | None:
        """Wait for a place; the time at which it was given, or None when there was none in time."""
        end = time.monotonic() + patience
        with self._changed:
            while True:
                now = time.monotonic()
                if now >= end:
                    return None
                if now >= self._pause and self._under_way < int(self.limit):
                    self._under_way += 1
                    return now
                resume = self._pause - now if now < self._pause else 1.0
                self._changed.wait(min(resume, end - now))

    def leave(self, began: float, *, fine: bool) -> None:
        """A request that began then has ended, well or not."""
        with self._changed:
            self._under_way -= 1
            if fine:
                # Twofold in each round of requests until there is trouble, then by one a round.
                self.limit = min(self.most, self.limit + (1 / self.limit if self._troubled else 1))
            elif began > self._cut:  # those that began before the last cut tell nothing new
                self._cut, self._troubled = time.monotonic(), True
                self.limit = max(1.0, self.limit / 2)
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Let no request pass for a while: the server has asked for it."""
        with self._changed:
            self._pause = max(self._pause, time.monotonic() + seconds)


_known: dict[tuple[str, str, int], Throttle] = {}
_lock = threading.Lock()


def throttle_of(address: str, model: str, most: int) -> Throttle:
    """The throttle of an endpoint: what one who asks has learnt of it, the next one knows."""
    with _lock:
        return _known.setdefault((address, model, most), Throttle(most))
