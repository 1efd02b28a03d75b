"""What an environment is to the rest: a place that opens episodes, and what an episode does.

A kind's `run(params, site)` returns an `EpisodeFactory`. Episodes are deterministic: the same row, the
same seed and the same actions give the same observations and the same score.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

Row = Mapping[str, Any]
# A turn's text, or a tool's name and arguments.
Action = str | Mapping[str, Any]


class Episode(Protocol):
    """One play. Whatever it raises counts as the environment's failure, not as the model's."""

    def reset(self, row: Row, seed: int) -> str:
        """Begin, and give the first observation; empty when there is none."""
        ...

    def step(self, action: Action) -> tuple[str, bool]:
        """What the action brings about, and whether the episode is over."""
        ...

    def score(self) -> float:
        """How it went, whenever it is asked."""
        ...

    def close(self) -> None:
        """Give back what it holds. Called once, however the episode ended."""
        ...


@dataclass(frozen=True, kw_only=True)
class EpisodeResources:
    """What a kind is given beside its parameters."""

    # The user's files by name, as the recipe has it.
    files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    # The longest that one call may take.
    seconds: float = 30.0


def _close_nothing() -> None:
    """Most places hold nothing."""


@dataclass(frozen=True, kw_only=True)
class EpisodeFactory:
    open: Callable[[], Episode]
    # Episodes that may be in a call at the same time.
    max_concurrency: int = 1
    close: Callable[[], None] = _close_nothing


class EpisodeError(Exception):
    """An environment did not do what it should: it raised, took too long, or gave what it may not."""
