"""Where and how a plan is executed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain.runtime.execution.selection import Selection
from posttrain.runtime.machine import Machine, this_machine
from posttrain.runtime.runners.dispatch import RunnerDispatch
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.spec.record import record

# Called on every change: the step's id, its new state, and what is known about it.
StateListener = Callable[[str, str, Mapping[str, Any]], None]


@dataclass
class RunStop:
    """How the run has been asked to end: 1 keeps what is under way, 2 ends it at once."""

    level: int = 0


@record(kw_only=True)
class RunContext:
    home: Home
    # The recipe's folder: user files are read from there.
    recipe_dir: Path
    journal: Journal
    on_state_change: StateListener
    # The run's name: products of steps that are not pinned belong to it alone.
    run_name: str
    # The steps to carry out; all when None.
    selection: Selection | None = None
    runner: RunnerDispatch = field(default_factory=RunnerDispatch)
    stop_request: RunStop = field(default_factory=RunStop)
    machine: Machine = field(default_factory=lambda: this_machine(gpus=False))
