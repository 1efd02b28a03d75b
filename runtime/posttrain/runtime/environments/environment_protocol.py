"""The interface of environments: a factory of episodes, and the methods of an episode.

An environment's `run(params, resources)` returns an `EpisodeFactory`. Episodes must be deterministic: the
same row, seed and actions produce the same observations and the same score.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

Row = Mapping[str, Any]
# The text of a turn, or the name and arguments of a tool call.
Action = str | Mapping[str, Any]


class Episode(Protocol):
    """One episode. An exception counts as a failure of the environment, not of the model."""

    def reset(self, row: Row, seed: int) -> str:
        """Start the episode. Returns the first observation, or an empty string."""
        ...

    def step(self, action: Action) -> tuple[str, bool]:
        """Apply an action. Returns the observation, and whether the episode is over."""
        ...

    def score(self) -> float:
        """The score so far. Can be called at any time."""
        ...

    def close(self) -> None:
        """Release resources. Called once, also after a failure."""
        ...


@dataclass(frozen=True, kw_only=True)
class EpisodeResources:
    """What an environment receives in addition to its parameters."""

    # User files by their name in the recipe.
    files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    # Time limit of one call, in seconds.
    seconds: float = 30.0


def _close_nothing() -> None:
    """The default: nothing to release."""


@dataclass(frozen=True, kw_only=True)
class EpisodeFactory:
    open: Callable[[], Episode]
    # The number of episodes whose methods may run at the same time.
    max_concurrency: int = 1
    close: Callable[[], None] = _close_nothing


class EpisodeError(Exception):
    """A failure of an environment: it raised an exception, timed out, or returned an invalid value."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        # The part of the traceback in the environment's code and below.
        self.details = details
