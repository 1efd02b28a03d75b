"""Checks that the libraries of the steps are installed on this machine."""

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from posttrain.runtime.preflight.finding import Finding, error
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.spec.plan import Step


def probes(scope: Scope) -> Iterator[Probe]:
    yield lambda: [found for step in scope.steps for found in _missing_libraries(step)]


def _missing_libraries(step: Step) -> Iterator[Finding]:
    stack = step.key_values.get("environment")
    if step.image is not None or not isinstance(stack, dict):
        return  # the key of a step in a container has the image instead
    missing = [name for name in sorted(stack) if not _is_installed(name)]
    if missing:
        cause = f"`{step.id}` requires {', '.join(missing)}, which {sys.executable} does not have"
        advice = "install posttrain with its extras, such as posttrain[train], or run the step in a container"
        yield error("library", step, cause, advice)


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
