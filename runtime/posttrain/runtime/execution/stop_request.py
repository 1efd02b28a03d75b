"""The request to stop a run, from a signal handler or another thread."""

from dataclasses import dataclass


@dataclass
class StopRequest:
    """The requested stop: 0 none, 1 lets steps save their state, 2 kills them."""

    level: int = 0

    def stop(self, *, now: bool = False) -> None:
        """Stop at the next checkpoint of each step, or now. A second call stops now."""
        self.level = 2 if now else self.level + 1
