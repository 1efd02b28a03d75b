"""Checks that the interpreters that environments name can run, and have the modules of the episodes."""

import shutil
import subprocess
import sys
from collections.abc import Iterator

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.preflight.finding import Finding, error
from posttrain.runtime.preflight.module_search import interpreter_variables, missing_modules
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.runtime.preflight.step_parts import StepPart, step_parts
from posttrain.spec.extension import Environment


def probes(scope: Scope) -> Iterator[Probe]:
    for step in scope.steps:
        for part in step_parts(step) if step.image is None else ():
            if part.environment is not None:
                yield lambda part=part: list(_check_interpreter(part))


def _check_interpreter(part: StepPart) -> Iterator[Finding]:
    assert part.environment is not None, "the part has an environment"
    kind = CATALOG.find("environment", part.environment.type)
    assert isinstance(kind, Environment), f"the catalog has no environment {part.environment.type}"
    params = read_extension_params(kind.params, {**part.environment.params, **part.hosting})
    named, modules = kind.interpreter(params)
    python = named or sys.executable
    if not modules:
        return
    problem = _problem(python, modules, part)
    if problem is not None:
        cause = f"the environment `{kind.name}`: {problem}"
        advice = f"install {', '.join(modules)} there, or set `python` to an interpreter that has it"
        yield error("function", part.step, cause, advice, declaration=part.environment_place)


def _problem(python: str, modules: tuple[str, ...], part: StepPart) -> str | None:
    if shutil.which(python) is None:
        return f"there is no interpreter {python}"
    try:
        missing = missing_modules([python], modules, interpreter_variables(part.step))
    except (OSError, subprocess.TimeoutExpired, ValueError) as problem:
        return f"{python} cannot be asked for its modules: {problem}"
    return f"{python} does not have the module `{sorted(missing)[0]}`" if missing else None
