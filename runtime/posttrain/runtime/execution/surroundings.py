"""Where and how a plan is executed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain.runtime.execution.selection import Selection
from posttrain.runtime.keeping.home import Home
from posttrain.runtime.keeping.journal import Journal
from posttrain.runtime.machine import Machine, this_machine
from posttrain.runtime.runners.by_step import Runners
from posttrain.spec.record import record

# Told of every change: the step's id, its new state, and what is known about it.
Watch = Callable[[str, str, Mapping[str, Any]], None]


@dataclass
class Stopping:
    """How the run has been asked to end: 1 keeps what is under way, 2 ends it at once."""

    level: int = 0


@record(kw_only=True)
class Surroundings:
    home: Home
    # The recipe's folder: user files are read from there.
    beside: Path
    journal: Journal
    watch: Watch
    # The run's name: products of steps that are not pinned belong to it alone.
    run: str
    # The steps to carry out; all when None.
    selection: Selection | None = None
    runner: Runners = field(default_factory=Runners)
    stopping: Stopping = field(default_factory=Stopping)
    machine: Machine = field(default_factory=lambda: this_machine(gpus=False))
