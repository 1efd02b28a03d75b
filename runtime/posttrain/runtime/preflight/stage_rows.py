"""Checks the stages against the rows of datasets that are in the store already."""

from collections.abc import Iterator

from posttrain.runtime.preflight.schedules import check_schedule, data_inputs
from posttrain.runtime.preflight.scope import Probe, Scope


def probes(scope: Scope) -> Iterator[Probe]:
    steps = {step.id: step for step in scope.plan.steps}
    for step in scope.steps:
        facts = {
            source: product.facts
            for source in {given.step for given in data_inputs(step).values()}
            if steps[source].pinned and (product := scope.home.store.find(steps[source].key)) is not None
        }
        if facts:
            yield lambda step=step, facts=facts: list(check_schedule(step, facts))
