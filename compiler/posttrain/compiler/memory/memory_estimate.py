"""The memory estimate of a workload on one device: the terms of the phase with the highest total."""

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
    phases = tuple(_with_overhead(workload, device, m) for m in _memory_phases(workload, device))
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
    always = resident_terms(workload)
    engine = colocated_vllm_terms(workload, device)
    steps = training_phases(workload) if workload.train else forward_phases(workload)
    generating = generation_phases(workload, device, always)
    evaluating = evaluation_phases(workload, always, engine)
    return (*(memory_phase(m.name, m.terms, engine) for m in steps), *generating, *evaluating)


def _with_overhead(workload: Workload, device: Device, part: MemoryPhase) -> MemoryPhase:
    return memory_phase(part.name, part.terms, overhead_terms(workload, device, part.terms))
