"""Checks that the cluster of a run answers, and that it can ever run each step."""

from collections.abc import Iterator

from posttrain.runtime.errors import StepError
from posttrain.runtime.preflight.finding import Finding, error
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.spec.place import Place
from posttrain.spec.plan import Step

_ADVICE = "correct the place, or `hardware` and `placement` of the recipe"


def probes(scope: Scope) -> Iterator[Probe]:
    place = scope.place
    if place is not None:
        yield lambda: _check_requests(scope, place)


def _check_requests(scope: Scope, place: Place) -> list[Finding]:
    """One question to the engine for all steps with the same request."""
    from posttrain.runtime.runners.cluster.engines import create_scheduler
    from posttrain.runtime.runners.cluster.job_request import unmet_limit
    from posttrain.runtime.runners.cluster.job_specs import JobSpecs

    found: list[Finding] = []
    by_request: dict[object, list[Step]] = {}
    specs = JobSpecs(place)
    for step in scope.steps:
        limit = unmet_limit(step, place)
        if limit is not None:
            found.append(error("place", step, f"`{step.id}` cannot run at this place: {limit}", _ADVICE))
        else:
            request = specs.step_job(scope.home.workdir(step.key), step).request
            by_request.setdefault(request, []).append(step)
    scheduler = scope.scheduler or create_scheduler(place)
    try:
        scheduler.open()
        for steps in by_request.values():
            rejection = scheduler.rejection(specs.step_job(scope.home.workdir(steps[0].key), steps[0]))
            if rejection is not None:
                found += [error("place", step, f"`{step.id}`: {rejection}", _ADVICE) for step in steps]
    except StepError as problem:
        found += [error("place", step, str(problem), problem.advice) for step in scope.steps]
    finally:
        if scope.scheduler is None:
            scheduler.close()
    return found
