"""Checks that the programs of script stages exist, and that interpreters have the packages they require."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from posttrain.runtime.errors import StepError
from posttrain.runtime.plan_params import read_step_params
from posttrain.runtime.preflight.finding import Finding, error
from posttrain.runtime.preflight.module_search import (
    interpreter_variables,
    package_versions,
    version_arguments,
)
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.spec.plan import Step
from posttrain.spec.step_params.artifact_params import STEP_INTERPRETERS, ScriptStepParams


def probes(scope: Scope) -> Iterator[Probe]:
    for step in scope.steps:
        params = read_step_params(step)
        if isinstance(params, ScriptStepParams):
            yield lambda step=step, params=params: list(_check_program(step, params))


def _check_program(step: Step, params: ScriptStepParams) -> Iterator[Finding]:
    program = params.command[0]
    variables = interpreter_variables(step)
    if step.image is None and program not in STEP_INTERPRETERS and _find(program, step, variables) is None:
        cause = f"`{step.id}` runs `{program}`, and there is no such program"
        yield error("function", step, cause, "install it, name its path, or list it under `files`")
        return
    names = [each.partition("==")[0] for each in params.requires]
    found = _installed(step, program, names, variables) if names else {}
    if isinstance(found, str):
        yield error("library", step, f"`{step.id}`: {found}", "name a Python interpreter as the program")
        return
    interpreter = step.image or _interpreter(program)
    for each in params.requires:
        name, _, version = each.partition("==")
        if found is not None and (found.get(name) is None or (version and found[name] != version)):
            has = (
                f"and {interpreter} has {found[name]}"
                if found.get(name)
                else f"which {interpreter} does not have"
            )
            cause = f"`{step.id}` requires {each}, {has}"
            yield error("library", step, cause, f"install {each} there")


def _find(program: str, step: Step, variables: Mapping[str, str]) -> str | None:
    """The path of a program; a relative one can be a file of the recipe."""
    if "/" in program and not program.startswith("/"):
        return program if program.removeprefix("./") in step.files else None
    return shutil.which(program, path=variables.get("PATH"))


def _interpreter(program: str) -> str:
    """The interpreter whose packages a program uses: itself, or that of the step."""
    is_python = Path(program).name.startswith("python") and program not in STEP_INTERPRETERS
    return program if is_python else sys.executable


def _installed(
    step: Step, program: str, names: list[str], variables: Mapping[str, str]
) -> Mapping[str, str | None] | str | None:
    """The versions of packages, or why they are not known. Of an image that is not here nothing is known."""
    if step.image is None:
        try:
            return package_versions([_interpreter(program)], names, variables)
        except (OSError, subprocess.TimeoutExpired, ValueError) as problem:
            return f"`{program}` cannot be asked for its packages: {problem}"
    from posttrain.runtime.runners.image_check import local_image_output

    try:
        output = local_image_output(step.image, version_arguments(names))
    except StepError:
        return None  # reported with the images
    return None if output is None else json.loads(output)
