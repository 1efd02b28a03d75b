"""The memory estimate of a workload on one device: the terms of the phase with the highest total."""

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.memory.generation_memory import (
    colocated_vllm_terms,
    evaluation_phases,
    generation_phases,
    vllm_start_error,
)
from posttrain.compiler.memory.memory_terms import MemoryPhase, MemoryTerm, format_gib, memory_phase
from posttrain.compiler.memory.overhead import overhead_terms
from posttrain.compiler.memory.training_memory import forward_phases, resident_terms, training_phases
from posttrain.compiler.memory.workload import Workload


class MemoryEstimate(NamedTuple):
    """`terms` are the terms of the peak phase, and add up to `total`."""

    peak_phase: str
    terms: tuple[MemoryTerm, ...]
    total: int
    limit: int
    phases: tuple[MemoryPhase, ...]
    start_error: str | None = None  # why the engine cannot start, whatever the total

    @property
    def fits(self) -> bool:
        return self.total <= self.limit and self.start_error is None

    @property
    def headroom(self) -> int:
        return self.limit - self.total


def estimate_memory(workload: Workload, device: Device) -> MemoryEstimate:
    """Return the memory estimate of one device of the workload."""
    phases = _memory_phases(workload, device)
    peak = max(phases, key=lambda m: m.total)
    return MemoryEstimate(
        peak_phase=peak.name,
        terms=peak.terms,
        total=peak.total,
        limit=device.memory if device.kind == "gpu" else device.memory // workload.gpus,
        phases=phases,
        start_error=vllm_start_error(workload, device),
    )


def format_terms(result: MemoryEstimate) -> tuple[str, ...]:
    """Return the terms as readable text, the largest first."""
    ordered = sorted(result.terms, key=lambda t: -t.bytes)
    return tuple(f"{t.name}: {format_gib(t.bytes)} ({t.why})" for t in ordered)


def _memory_phases(workload: Workload, device: Device) -> tuple[MemoryPhase, ...]:
    # Many rollouts are tried with the same training step.
    always, steps = _step_memory(replace(workload, rollout=None) if workload.train else workload)
    engine = colocated_vllm_terms(workload, device)
    generating = generation_phases(workload, device, always)
    evaluating = evaluation_phases(workload, always, engine)
    return (
        *(_with_overhead(workload, device, phase, engine) for phase in steps),
        *(_with_overhead(workload, device, phase, ()) for phase in (*generating, *evaluating)),
    )


@lru_cache(256)
def _step_memory(workload: Workload) -> tuple[tuple[MemoryTerm, ...], tuple[MemoryPhase, ...]]:
    """Return the terms of all phases, and the phases without an engine."""
    always = resident_terms(workload)
    return always, (training_phases if workload.train else forward_phases)(workload, always)


def _with_overhead(
    workload: Workload, device: Device, phase: MemoryPhase, engine: tuple[MemoryTerm, ...]
) -> MemoryPhase:
    """Return the phase with the terms of the engine and the overhead of the process."""
    added = memory_phase(phase.name, engine, overhead_terms(workload, device, (*phase.terms, *engine)))
    return phase._replace(terms=phase.terms + added.terms)
