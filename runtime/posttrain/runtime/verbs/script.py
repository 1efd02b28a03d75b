"""Runs a program of the user's over declared inputs; what it writes to $OUT is the product."""

import contextlib
import os
import signal
import subprocess

from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.worker import die_with_parent
from posttrain.spec.extension import Verb

EXTENSION = Verb(name="script", summary="A program of the user's.")
_POLL_SECONDS = 0.2
_GRACE_SECONDS = 10.0


def run(context: StepContext) -> None:
    folder = context.work / "scratch" / "script"
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in context.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        target.chmod(0o755)
    inputs = {f"INPUT_{role.upper().replace('-', '_')}": str(path) for role, path in context.inputs.items()}
    environment = {**os.environ, **inputs, "OUT": str(context.out), "SEED": str(context.params["seed"])}
    command = context.params["command"]
    parent = os.getppid()
    # When the run's client dies, there is the program to end first: be asked, rather than killed.
    die_with_parent(parent, signal.SIGTERM)
    try:
        program = subprocess.Popen(command, cwd=folder, env=environment)
    except OSError as error:
        raise StepError(f"`{command[0]}` cannot be started: {error.strerror}") from None
    status = _wait_for_program(program, context, parent)
    if status:
        raise StepError(f"`{command[0]}` ended with status {status}", "see `recipe logs STAGE`")


def _wait_for_program(program: subprocess.Popen[bytes], context: StepContext, parent: int) -> int:
    """Wait for the program's end. A step that is asked to stop asks all that the program has started."""
    while True:
        try:
            return program.wait(timeout=_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if context.stop.requested:
                os.killpg(0, signal.SIGTERM)  # this worker too, which has heard it already
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(timeout=_GRACE_SECONDS)
                if os.getppid() != parent:  # nobody is left who would clear up after this worker
                    os.killpg(0, signal.SIGKILL)
                raise Interrupted from None
