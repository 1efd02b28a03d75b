"""Errors of a run that does not start: no step has run, and the home has no record of the run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.runtime.preflight.finding import location_text

if TYPE_CHECKING:
    from posttrain.runtime.preflight.finding import Finding


class RunRefused(Exception):
    """A run that cannot start, with the reason."""


class SelectionError(RunRefused):
    """A selection with an unknown stage, or with a missing input or gate."""


class HomeNotWritable(RunRefused):
    """A home in which the run cannot record its products."""

    def __init__(self, home: Path, problem: str) -> None:
        super().__init__(problem)
        self.home = home


class PreflightFailed(RunRefused):
    """The selected steps need something that they would not get. `findings` has the warnings too."""

    def __init__(self, findings: "Sequence[Finding]") -> None:
        super().__init__("\n".join(f"{location_text(one.place)}: {one.cause}" for one in findings))
        self.findings = tuple(findings)
