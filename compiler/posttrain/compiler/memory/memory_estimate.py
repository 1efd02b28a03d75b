"""The memory of a workload on one device: its terms at the moment when they are largest."""

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
    """`terms` are those of the largest moment and add up to `total`."""

    peak_phase: str
    terms: tuple[MemoryTerm, ...]
    total: int
    limit: int
    phases: tuple[MemoryPhase, ...]
    start_error: str | None = None  # why an engine would not start, whatever the sum

    @property
    def fits(self) -> bool:
        return self.total <= self.limit and self.start_error is None

    @property
    def headroom(self) -> int:
        return self.limit - self.total


def estimate_memory(workload: Workload, device: Device) -> MemoryEstimate:
    """What one of the workload's devices has to hold."""
    moments = tuple(_with_overhead(workload, device, m) for m in _memory_phases(workload, device))
    largest = max(moments, key=lambda m: m.total)
    return MemoryEstimate(
        peak_phase=largest.name,
        terms=largest.terms,
        total=largest.total,
        limit=device.memory if device.kind == "gpu" else device.memory // workload.gpus,
        phases=moments,
        start_error=vllm_start_error(workload, device),
    )


def format_terms(result: MemoryEstimate) -> tuple[str, ...]:
    """The terms as people read them, the largest first."""
    ordered = sorted(result.terms, key=lambda t: -t.bytes)
    return tuple(f"{t.name}: {format_gib(t.bytes)} ({t.why})" for t in ordered)


def _memory_phases(workload: Workload, device: Device) -> tuple[MemoryPhase, ...]:
    always = resident_terms(workload)
    beside = colocated_vllm_terms(workload, device)
    steps = training_phases(workload) if workload.train else forward_phases(workload)
    generating = generation_phases(workload, device, always)
    evaluating = evaluation_phases(workload, always, beside)
    return (*(memory_phase(m.name, m.terms, beside) for m in steps), *generating, *evaluating)


def _with_overhead(workload: Workload, device: Device, part: MemoryPhase) -> MemoryPhase:
    return memory_phase(part.name, part.terms, overhead_terms(workload, device, part.terms))
