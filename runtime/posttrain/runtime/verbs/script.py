"""The verb `script`: runs a user program on declared inputs. The files in `outputs` are its product."""

import os
import subprocess
import sys
from pathlib import Path

from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.process_tree import become_subreaper, end_descendants, terminate_descendants
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.verbs.script_folder import INPUTS, STATE, clear_folder, prepare_folder
from posttrain.runtime.verbs.script_outputs import check_outputs
from posttrain.spec.extension import Verb
from posttrain.spec.step_params.artifact_params import STEP_INTERPRETERS, ScriptStepParams

EXTENSION = Verb(
    name="script",
    summary="The files that a user program writes to `outputs`, and its declared outputs.",
    version=2,
)
_POLL_SECONDS = 0.2


def run(context: StepContext[ScriptStepParams]) -> None:
    folder = context.work / "scratch" / "script"
    prepare_folder(context, folder)
    command = _resolve_command(context.params.command)
    become_subreaper()  # so that its daemons end with it
    try:
        program = subprocess.Popen(command, cwd=folder, env=_environment(context, folder))
    except OSError as error:
        raise StepError(f"cannot start `{command[0]}`: {error.strerror}") from None
    status = _wait_for_program(program, context)
    end_descendants()  # a process that it has left behind must not write to the product
    # A scheduler sends SIGTERM to all processes: a shell can continue after the death of its command, and
    # exit with 0 as if that had succeeded.
    if status is None or context.stop.requested:
        raise Interrupted
    if status:
        raise StepError(
            f"`{context.params.command[0]}` exited with status {status}", "see `recipe logs STAGE`"
        )
    clear_folder(folder)
    check_outputs(context)


def _resolve_command(command: tuple[str, ...]) -> list[str]:
    """The command with the interpreter of this process for `python`."""
    program, *arguments = command
    return [sys.executable if program in STEP_INTERPRETERS else program, *arguments]


def _environment(context: StepContext[ScriptStepParams], folder: Path) -> dict[str, str]:
    inputs = {
        f"INPUT_{role.upper().replace('-', '_')}": str(folder / INPUTS / role) for role in context.inputs
    }
    places = {"OUT": str(context.out), "STATE": str(folder / STATE), "SEED": str(context.params.seed)}
    return {**os.environ, **inputs, **places}


def _wait_for_program(program: subprocess.Popen[bytes], context: StepContext) -> int | None:
    """Wait for the program to exit, and return its status; None after a stop request.

    A stop request sends SIGTERM to all its processes, once. When the time for a stop is over, the client
    kills the step.
    """
    while True:
        try:
            return program.wait(timeout=_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if context.stop.requested:
                terminate_descendants()
                program.wait()
                return None
