"""What to change when a workload does not fit, each answer computed and the smallest of its kind.

The kinds are ordered by how little they change: first what leaves the result as it is, then what
costs machines, then what trains something else. Where no single change is enough, those that
leave the result alone are taken together, and the others tried on top of them.
"""

from collections.abc import Iterator
from typing import NamedTuple

from posttrain.compiler.facts.accelerators import Device, accelerator, accelerators
from posttrain.compiler.memory.changes import COSTLY, HARMLESS, smaller_batches
from posttrain.compiler.memory.estimate import Estimate, estimate
from posttrain.compiler.memory.workload import Workload


class Remedy(NamedTuple):
    change: str
    workload: Workload
    device: Device
    estimate: Estimate


def remedies(workload: Workload, device: Device) -> tuple[Remedy, ...]:
    """Changes that make the workload fit, the smallest first. Empty where it fits already."""
    if estimate(workload, device).fits:
        return ()
    found = [*_each(workload, device)]
    if not any(r.workload.gpus == workload.gpus for r in found):
        done, changed = _all_harmless(workload, device)
        alone = _fitting(done, changed, device)
        told = {remedy.change for remedy in found}
        found += [alone] if alone else [r for r in _eased(workload, device) if r.change not in told]
    return (*found, *_larger_device(workload, device))


def fitting_rows(workload: Workload, device: Device) -> Workload | None:
    """The same global batch in the largest micro-batches that fit; None if not even one does."""
    if estimate(workload, device).fits:
        return workload
    smaller = (changed for _, changed in smaller_batches(workload, device))
    return next((w for w in smaller if estimate(w, device).fits), None)


def _each(workload: Workload, device: Device) -> Iterator[Remedy]:
    """Single changes that are enough."""
    for kind in (*HARMLESS, *COSTLY):
        fitting = (_fitting(change, changed, device) for change, changed in kind(workload, device))
        remedy = next((one for one in fitting if one), None)
        if remedy:
            yield remedy


def _eased(workload: Workload, device: Device) -> Iterator[Remedy]:
    """Costly changes, with everything that leaves the result alone on top of each."""
    for kind in COSTLY:
        for change, changed in kind(workload, device):
            done, eased = _all_harmless(changed, device)
            remedy = _fitting(f"{done}, {change}" if done else change, eased, device)
            if remedy:
                yield remedy
                break


def _fitting(change: str, workload: Workload, device: Device) -> Remedy | None:
    result = estimate(workload, device)
    return Remedy(change, workload, device, result) if result.fits else None


def _all_harmless(workload: Workload, device: Device) -> tuple[str, Workload]:
    """Everything that leaves the result alone, one after the other, as far as it goes."""
    said: list[str] = []
    for kind in HARMLESS:
        last = list(kind(workload, device))[-1:]
        for change, changed in last:
            if estimate(changed, device).total < estimate(workload, device).total:
                said.append(change)
                workload = changed
    return ", ".join(said), workload


def _larger_device(workload: Workload, device: Device) -> Iterator[Remedy]:
    known = (accelerator(name) for name in accelerators())
    gpus = [d for d in known if d and d.kind == "gpu" and d.memory > device.memory]
    gpus = [d for d in gpus if d.maker == device.maker]
    for other in sorted(gpus, key=lambda d: (d.memory, d.dollars_per_hour)):
        remedy = _fitting(f"{other.name} instead of {device.name}", workload, other)
        if remedy and device.kind == "gpu":
            yield remedy
            return
