"""Failures that a user can act on. Anything else that a step raises is reported as unexpected."""


class StepFault(Exception):
    """A step cannot go on: what happened, and what to do about it."""

    def __init__(self, message: str, advice: str = "", *, retriable: bool = False) -> None:
        super().__init__(message)
        self.advice = advice
        self.retriable = retriable


class Interrupted(Exception):
    """The step was asked to stop, and has kept what it needs to go on later."""
