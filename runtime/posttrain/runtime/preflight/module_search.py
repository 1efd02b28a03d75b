"""Asks an interpreter which modules it does not find, without an import of any of them."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.runtime.preflight import module_finder, package_finder
from posttrain.runtime.process_environment import step_environment, subprocess_environment
from posttrain.spec.plan import Step

_SECONDS = 30.0  # time limit of the interpreter


def missing_modules(
    command: Sequence[str], names: Sequence[str], variables: Mapping[str, str]
) -> frozenset[str]:
    """The modules that an interpreter does not find. Raises OSError, TimeoutExpired or ValueError."""
    return frozenset(_ask(command, finder_arguments(names), variables))


def package_versions(
    command: Sequence[str], names: Sequence[str], variables: Mapping[str, str]
) -> dict[str, str | None]:
    """The versions of the packages that an interpreter has; None for the others. Raises as above."""
    return _ask(command, version_arguments(names), variables)


def _ask(command: Sequence[str], arguments: Sequence[str], variables: Mapping[str, str]) -> Any:
    done = subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        timeout=_SECONDS,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise OSError(lines[-1] if lines else f"exit status {done.returncode}")
    return json.loads(done.stdout)


def finder_arguments(names: Sequence[str]) -> list[str]:
    """The arguments of an interpreter, which can be in a container: the program as text, and the names."""
    return ["-c", Path(module_finder.__file__).read_text(encoding="utf-8"), json.dumps(names)]


def version_arguments(names: Sequence[str]) -> list[str]:
    """The arguments of an interpreter that prints the versions of packages."""
    return ["-c", Path(package_finder.__file__).read_text(encoding="utf-8"), json.dumps(names)]


def interpreter_variables(step: Step) -> dict[str, str]:
    """The variables of the processes that run the user's code of a step."""
    return subprocess_environment(step_environment(step, Path(tempfile.gettempdir()), os.environ))
