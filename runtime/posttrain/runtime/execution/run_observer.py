"""The interface of a client that follows a run: the command line, a web page, a notebook."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from posttrain.runtime.preflight.finding import Finding


class RunObserver:
    """Follows a run. All methods do nothing here: override those that the client needs.

    The methods are called in the thread of the run, which waits for them.
    """

    def execution(self, run: Path) -> AbstractContextManager[object]:
        """A context around the execution of the steps, with the folder of the run.

        A client that handles signals installs its handlers on entry and removes them on exit.
        """
        return nullcontext(run)

    def on_findings(self, findings: Sequence[Finding]) -> None:
        """The findings of the preflight, before the first step. With an error among them, no step starts."""

    def on_change(self, id: str, state: str, known: Mapping[str, Any]) -> None:
        """A step changed its state, or has news.

        `state` is a state of the executor (`executor.py`), or `progress` or `warning`; `known` has details.
        """

    def note(self, text: str) -> None:
        """A message about the run that concerns no single step."""
