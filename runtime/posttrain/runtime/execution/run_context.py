"""The context of a run: where and how its plan is executed."""

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from posttrain.runtime.execution.resource_pool import EngineQueue, ResourcePool, StepSlots
from posttrain.runtime.execution.selection import Selection
from posttrain.runtime.execution.stop_request import StopRequest
from posttrain.runtime.machine import Machine, this_machine
from posttrain.runtime.runners.dispatch import RunnerDispatch
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.products import Product
from posttrain.spec.place import Place
from posttrain.spec.plan import Step
from posttrain.spec.record import record

# Called on every change with the id of the step, its new state, and details.
StateListener = Callable[[str, str, Mapping[str, Any]], None]


def ignore_product(step: Step, product: Product) -> None:
    """The products of a run without a shared cache stay in the home."""


@record(kw_only=True)
class RunContext:
    home: Home
    # The folder of the recipe, from which the user's files are read.
    recipe_dir: Path
    journal: Journal
    on_state_change: StateListener
    # The name of the run. Products of steps that are not pinned are private to it.
    run_name: str
    # Called with every product of the run: those of its steps, and those that were in the store.
    on_product: Callable[[Step, Product], None] = ignore_product
    # The steps to execute; all when None.
    selection: Selection | None = None
    runner: RunnerDispatch = field(default_factory=RunnerDispatch)
    stop_request: StopRequest = field(default_factory=StopRequest)
    machine: Machine = field(default_factory=lambda: this_machine(gpus=False))
    # The cluster on which the steps run, whose engine queues them. `machine` does not limit them then.
    place: Place | None = None

    def slots(self) -> StepSlots:
        """What decides when a step can start."""
        if self.place is not None:
            return EngineQueue(self.place.max_nodes)
        return ResourcePool(self.machine, self.home.gpu_locks)
