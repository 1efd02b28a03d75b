"""Shares this machine out among the steps that run side by side."""

from dataclasses import replace
from pathlib import Path

from posttrain.runtime.machine import Machine
from posttrain.runtime.store.file_locks import Lock, try_lock
from posttrain.spec.plan import Resources, Step
from posttrain.spec.record import record


def required_resources(step: Step) -> Resources:
    """What a step is counted for: of memory what the recipe says, else what the plan estimates.

    The estimate for a step with GPUs is of their memory, and says nothing about that of the machine.
    """
    declared = step.resources
    estimated = (step.estimate or {}).get("memory_gb")
    if declared.memory_gb is not None or declared.gpus or estimated is None:
        return declared
    return replace(declared, memory_gb=estimated * step.launch.processes)


@record
class Allocation:
    """What a step under way holds of the machine."""

    resources: Resources
    # Its GPUs, as CUDA_VISIBLE_DEVICES names them, and the locks that keep other runs of the home off.
    gpus: tuple[str, ...]
    locks: tuple[Lock, ...]


class ResourcePool:
    """What is taken, by the step that has it."""

    def __init__(self, machine: Machine, locks: Path) -> None:
        self._machine = machine
        self._locks = locks
        self._allocations: dict[str, Allocation] = {}

    def has_room(self, required: Resources) -> bool:
        """Whether a step can begin beside those that run; one alone always can."""
        held = [allocation.resources for allocation in self._allocations.values()]
        if not held:
            return True
        cpus = sum(other.cpus for other in held) + required.cpus
        memory = sum(other.memory_gb or 0 for other in held) + (required.memory_gb or 0)
        gpus = sum(other.gpus for other in held) + required.gpus
        machine = self._machine
        return cpus <= machine.cpus and memory <= machine.memory_gb and gpus <= len(machine.gpus)

    def allocate(self, id: str, required: Resources) -> Allocation | None:
        """Room for the step with its GPUs; None when there is too little now."""
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
        if len(gpus) < required.gpus:  # another run of this home has one
            for lock in locks:
                lock.release()
            return None
        self._allocations[id] = Allocation(required, tuple(gpus), tuple(locks))
        return self._allocations[id]

    def gpus(self, id: str) -> tuple[str, ...]:
        """The GPUs that a step under way has."""
        return self._allocations[id].gpus

    def release(self, id: str) -> None:
        """Give back what the step had, if it had something."""
        allocation = self._allocations.pop(id, None)
        for lock in allocation.locks if allocation else ():
            lock.release()
