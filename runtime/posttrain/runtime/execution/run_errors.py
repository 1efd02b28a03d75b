"""Errors of a run that does not start: no step has run, and the home has no record of the run."""

from pathlib import Path


class RunRefused(Exception):
    """A run that cannot start, with the reason."""


class SelectionError(RunRefused):
    """A selection with an unknown stage, or with a missing input or gate."""


class HomeNotWritable(RunRefused):
    """A home in which the run cannot record its products."""

    def __init__(self, home: Path, problem: str) -> None:
        super().__init__(problem)
        self.home = home


class UnmetRequirements(RunRefused):
    """Selected steps require more than this machine has, one message for each step."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages
