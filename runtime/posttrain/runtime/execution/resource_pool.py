"""Decides when a step can start: by the free resources of this machine, or at once if an engine has a
queue."""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from posttrain.runtime.machine import Machine
from posttrain.runtime.preflight.finding import Finding
from posttrain.runtime.preflight.machine_resources import unmet_requirements
from posttrain.runtime.store.file_locks import Lock, try_lock
from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.spec.plan import Resources, Step


def required_resources(step: "Step") -> "Resources":
    """The resources to reserve for a step. The memory comes from the recipe, else from the estimate.

    The estimate of a step with GPUs is GPU memory, so it says nothing about system memory.
    """
    declared = step.resources
    estimated = (step.estimate or {}).get("memory_gb")
    if declared.memory_gb is not None or declared.gpus or estimated is None:
        return declared
    return declared.model_copy(update={"memory_gb": estimated * step.launch.processes})


@record
class Allocation:
    """The resources of a running step."""

    resources: "Resources"
    # Its GPUs, as CUDA_VISIBLE_DEVICES names them, and the locks against other runs of the home.
    gpus: tuple[str, ...]
    locks: tuple[Lock, ...]


class StepSlots(Protocol):
    """Reserves what a step needs, for as long as it runs."""

    def unmet_requirement(self, step: "Step") -> Finding | None:
        """What the step needs and can never get here."""
        ...

    def has_room(self, required: "Resources") -> bool: ...

    def allocate(self, id: str, required: "Resources") -> object | None: ...

    def gpus(self, id: str) -> tuple[str, ...] | None: ...

    def release(self, id: str) -> None: ...


class EngineQueue:
    """The slots of a cluster: every step can be submitted, up to a limit of the place. The engine queues it
    and selects its GPUs."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._submitted: set[str] = set()

    def unmet_requirement(self, step: "Step") -> Finding | None:
        return None

    def has_room(self, required: "Resources") -> bool:
        return self._limit is None or len(self._submitted) < self._limit

    def allocate(self, id: str, required: "Resources") -> object | None:
        if not self.has_room(required):
            return None
        self._submitted.add(id)
        return required

    def gpus(self, id: str) -> tuple[str, ...] | None:
        return None

    def release(self, id: str) -> None:
        self._submitted.discard(id)


class ResourcePool:
    """The current allocations, by step."""

    def __init__(self, machine: Machine, locks: Path) -> None:
        self._machine = machine
        self._locks = locks
        self._allocations: dict[str, Allocation] = {}

    def unmet_requirement(self, step: "Step") -> Finding | None:
        """What the step needs and this machine does not have."""
        return next(unmet_requirements([step], self._machine), None)

    def has_room(self, required: "Resources") -> bool:
        """Whether a step fits next to the running ones; a step on an idle machine always fits."""
        allocated = [allocation.resources for allocation in self._allocations.values()]
        if not allocated:
            return True
        cpus = sum(other.cpus for other in allocated) + required.cpus
        memory = sum(other.memory_gb or 0 for other in allocated) + (required.memory_gb or 0)
        gpus = sum(other.gpus for other in allocated) + required.gpus
        machine = self._machine
        return cpus <= machine.cpus and memory <= machine.memory_gb and gpus <= len(machine.gpus)

    def allocate(self, id: str, required: "Resources") -> Allocation | None:
        """Reserve the resources of a step; None when they are not free now."""
        if not self.has_room(required):
            return None
        gpus: list[str] = []
        locks: list[Lock] = []
        own = {name for allocation in self._allocations.values() for name in allocation.gpus}
        for name in self._machine.gpus:
            if len(gpus) < required.gpus and name not in own:
                lock = try_lock(self._locks / f"gpu-{name.replace('/', '_')}.lock")
                if lock is not None:
                    gpus.append(name)
                    locks.append(lock)
        if len(gpus) < required.gpus:  # another run of this home uses one
            for lock in locks:
                lock.release()
            return None
        self._allocations[id] = Allocation(required, tuple(gpus), tuple(locks))
        return self._allocations[id]

    def gpus(self, id: str) -> tuple[str, ...]:
        """The GPUs of a running step."""
        return self._allocations[id].gpus

    def release(self, id: str) -> None:
        """Release the resources of a step, if it has any."""
        allocation = self._allocations.pop(id, None)
        for lock in allocation.locks if allocation else ():
            lock.release()
