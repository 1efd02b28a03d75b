"""The verb `script`: runs a user program on declared inputs. The files in $OUT are its product."""

import os
import subprocess

from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.process_tree import become_subreaper, end_descendants, terminate_descendants
from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Verb
from posttrain.spec.step_params.artifact_params import ScriptStepParams

EXTENSION = Verb(name="script", summary="The files that a user program writes to $OUT.")
_POLL_SECONDS = 0.2


def run(context: StepContext[ScriptStepParams]) -> None:
    folder = context.work / "scratch" / "script"
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in context.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        target.chmod(0o755)
    inputs = {f"INPUT_{role.upper().replace('-', '_')}": str(path) for role, path in context.inputs.items()}
    environment = {**os.environ, **inputs, "OUT": str(context.out), "SEED": str(context.params.seed)}
    command = context.params.command
    become_subreaper()  # so that its daemons end with it
    try:
        program = subprocess.Popen(command, cwd=folder, env=environment)
    except OSError as error:
        raise StepError(f"cannot start `{command[0]}`: {error.strerror}") from None
    status = _wait_for_program(program, context)
    end_descendants()  # a process that it has left behind must not write to the product
    if status is None:
        raise Interrupted
    if status:
        raise StepError(f"`{command[0]}` exited with status {status}", "see `recipe logs STAGE`")


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
