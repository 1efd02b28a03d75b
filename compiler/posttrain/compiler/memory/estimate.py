"""The memory of a workload on one device: its terms at the moment when they are largest."""

from typing import NamedTuple

from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.memory.generation import (
    beside_training,
    evaluation_moments,
    generation_moments,
    refusal,
)
from posttrain.compiler.memory.overhead import overhead
from posttrain.compiler.memory.terms import Moment, Term, gib, moment
from posttrain.compiler.memory.training import forward_moments, standing, training_moments
from posttrain.compiler.memory.workload import Workload


class Estimate(NamedTuple):
    """`terms` are those of the largest moment and add up to `total`."""

    moment: str
    terms: tuple[Term, ...]
    total: int
    limit: int
    moments: tuple[Moment, ...]
    refusal: str | None = None  # why an engine would not start, whatever the sum

    @property
    def fits(self) -> bool:
        return self.total <= self.limit and self.refusal is None

    @property
    def headroom(self) -> int:
        return self.limit - self.total


def estimate(workload: Workload, device: Device) -> Estimate:
    """What one of the workload's devices has to hold."""
    moments = tuple(_whole(workload, device, m) for m in _moments(workload, device))
    largest = max(moments, key=lambda m: m.total)
    return Estimate(
        moment=largest.name,
        terms=largest.terms,
        total=largest.total,
        limit=device.memory if device.kind == "gpu" else device.memory // workload.gpus,
        moments=moments,
        refusal=refusal(workload, device),
    )


def lines(result: Estimate) -> tuple[str, ...]:
    """The terms as people read them, the largest first."""
    ordered = sorted(result.terms, key=lambda t: -t.bytes)
    return tuple(f"{t.name}: {gib(t.bytes)} ({t.why})" for t in ordered)


def _moments(workload: Workload, device: Device) -> tuple[Moment, ...]:
    always = standing(workload)
    beside = beside_training(workload, device)
    steps = training_moments(workload) if workload.train else forward_moments(workload)
    generating = generation_moments(workload, device, always)
    evaluating = evaluation_moments(workload, always, beside)
    return (*(moment(m.name, m.terms, beside) for m in steps), *generating, *evaluating)


def _whole(workload: Workload, device: Device, part: Moment) -> Moment:
    return moment(part.name, part.terms, overhead(workload, device, part.terms))
