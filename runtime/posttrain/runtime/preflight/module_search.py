"""Asks an interpreter which modules it does not find, without an import of any of them."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from posttrain.runtime.preflight import module_finder
from posttrain.runtime.process_environment import step_environment, subprocess_environment
from posttrain.spec.plan import Step

_SECONDS = 30.0  # time limit of the interpreter


def missing_modules(
    command: Sequence[str], names: Sequence[str], variables: Mapping[str, str]
) -> frozenset[str]:
    """The modules that an interpreter does not find. Raises OSError, TimeoutExpired or ValueError."""
    done = subprocess.run(
        [*command, *finder_arguments(names)],
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
    return frozenset(json.loads(done.stdout))


def finder_arguments(names: Sequence[str]) -> list[str]:
    """The arguments of an interpreter, which can be in a container: the program as text, and the names."""
    return ["-c", Path(module_finder.__file__).read_text(encoding="utf-8"), json.dumps(names)]


def interpreter_variables(step: Step) -> dict[str, str]:
    """The variables of the processes that run the user's code of a step."""
    return subprocess_environment(step_environment(step, Path(tempfile.gettempdir()), os.environ))
