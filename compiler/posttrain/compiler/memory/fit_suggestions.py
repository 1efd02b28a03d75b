"""Computes the smallest changes that make a workload fit in memory.

Changes are ordered by their impact: first those that preserve the result, then those that need more hardware,
then those that train something else. If no single change is enough, all result-preserving changes are
combined, and the other changes are tried in addition. An adapter that does not fit either is combined with
more GPUs, and with a larger GPU.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from posttrain.compiler.facts.accelerators import Device, accelerator_names, find_accelerator
from posttrain.compiler.memory.memory_estimate import MemoryEstimate, estimate_memory
from posttrain.compiler.memory.workload import Workload
from posttrain.compiler.memory.workload_changes import (
    ADAPTER_CHANGES,
    COSTLY_CHANGES,
    RESULT_PRESERVING_CHANGES,
    more_gpus,
    smaller_micro_batches,
)


class FitSuggestion(NamedTuple):
    change: str
    workload: Workload
    device: Device
    estimate: MemoryEstimate


def suggest_fits(workload: Workload, device: Device) -> tuple[FitSuggestion, ...]:
    """Return the changes that make the workload fit, the smallest first. Empty if it already fits."""
    if estimate_memory(workload, device).fits:
        return ()
    found = [*_single_changes(workload, device)]
    if not any(r.workload.gpus == workload.gpus for r in found):
        done, changed = _apply_result_preserving(workload, device)
        alone = _suggestion_if_fits(done, changed, device)
        suggested = {remedy.change for remedy in found}
        found += (
            [alone]
            if alone
            else [r for r in _combined_changes(workload, device) if r.change not in suggested]
        )
    return (*found, *_larger_gpu(workload, device), *_adapters_on_more_hardware(workload, device))


def largest_fitting_micro_batch(workload: Workload, device: Device) -> Workload | None:
    """Return the workload with the largest micro-batch that fits and the same global batch, or None."""
    if estimate_memory(workload, device).fits:
        return workload
    smaller = (changed for _, changed in smaller_micro_batches(workload, device))
    return next((w for w in smaller if estimate_memory(w, device).fits), None)


def _single_changes(workload: Workload, device: Device) -> Iterator[FitSuggestion]:
    """Yield the single changes that are sufficient."""
    for kind in (*RESULT_PRESERVING_CHANGES, *COSTLY_CHANGES):
        fitting = (_suggestion_if_fits(change, changed, device) for change, changed in kind(workload, device))
        remedy = next((one for one in fitting if one), None)
        if remedy:
            yield remedy


def _combined_changes(workload: Workload, device: Device) -> Iterator[FitSuggestion]:
    """Yield costly changes, each combined with all result-preserving changes."""
    for kind in COSTLY_CHANGES:
        for change, changed in kind(workload, device):
            done, eased = _apply_result_preserving(changed, device)
            remedy = _suggestion_if_fits(f"{done}, {change}" if done else change, eased, device)
            if remedy:
                yield remedy
                break


def _adapters_on_more_hardware(workload: Workload, device: Device) -> Iterator[FitSuggestion]:
    """Yield the adapters that do not fit on this hardware, each with more GPUs and with a larger GPU."""
    for kind in ADAPTER_CHANGES:
        for change, changed in kind(workload, device):
            done, eased = _apply_result_preserving(changed, device)
            if estimate_memory(eased, device).fits:
                continue
            name = f"{done}, {change}" if done else change
            more = (
                _suggestion_if_fits(f"{name}, {gpus}", one, device) for gpus, one in more_gpus(eased, device)
            )
            yield from itertools.islice(filter(None, more), 1)
            yield from _larger_gpu(eased, device, f"{name}, ")


def _suggestion_if_fits(change: str, workload: Workload, device: Device) -> FitSuggestion | None:
    result = estimate_memory(workload, device)
    return FitSuggestion(change, workload, device, result) if result.fits else None


def _apply_result_preserving(workload: Workload, device: Device) -> tuple[str, Workload]:
    """Apply all result-preserving changes that reduce the memory."""
    applied: list[str] = []
    for kind in RESULT_PRESERVING_CHANGES:
        last = list(kind(workload, device))[-1:]
        for change, changed in last:
            if estimate_memory(changed, device).total < estimate_memory(workload, device).total:
                applied.append(change)
                workload = changed
    return ", ".join(applied), workload


def _larger_gpu(workload: Workload, device: Device, before: str = "") -> Iterator[FitSuggestion]:
    known = (find_accelerator(name) for name in accelerator_names())
    gpus = [d for d in known if d and d.kind == "gpu" and d.memory > device.memory]
    gpus = [d for d in gpus if d.vendor == device.vendor]
    for other in sorted(gpus, key=lambda d: (d.memory, d.dollars_per_hour)):
        remedy = _suggestion_if_fits(f"{before}{other.name} instead of {device.name}", workload, other)
        if remedy and device.kind == "gpu":
            yield remedy
            return
