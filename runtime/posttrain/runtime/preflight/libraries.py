"""Checks that the libraries of the steps are installed on this machine."""

import sys
from collections.abc import Container, Iterable, Iterator, Mapping

from posttrain.runtime.installed_stack import installed_distributions
from posttrain.runtime.preflight.finding import Finding, error
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.spec.plan import Step


def probes(scope: Scope) -> Iterator[Probe]:
    yield lambda: list(_missing_libraries(scope.steps, installed_distributions()))


def _missing_libraries(steps: Iterable[Step], installed: Container[str]) -> Iterator[Finding]:
    for step in steps:
        missing = [name for name in _required_libraries(step) if name not in installed]
        if missing:
            cause = f"`{step.id}` requires {', '.join(missing)}, which {sys.executable} does not have"
            advice = (
                "install posttrain with its extras, such as posttrain[train], or run the step in a container"
            )
            yield error("library", step, cause, advice)


def _required_libraries(step: Step) -> list[str]:
    """The distributions in the key of a step. The key of a step in a container has the image instead."""
    stack = step.key_values.get("environment")
    return sorted(stack) if step.image is None and isinstance(stack, Mapping) else []
