"""The verb `script`: runs a user program on declared inputs. The files in $OUT are its product."""

import contextlib
import os
import signal
import subprocess

from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.worker import die_with_parent
from posttrain.spec.extension import Verb
from posttrain.spec.step_params.artifact_params import ScriptStepParams

EXTENSION = Verb(name="script", summary="The files that a user program writes to $OUT.")
_POLL_SECONDS = 0.2
_GRACE_SECONDS = 10.0


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
    parent = os.getppid()
    # SIGTERM instead of SIGKILL when the parent dies, so that the program is stopped first.
    die_with_parent(parent, signal.SIGTERM)
    try:
        program = subprocess.Popen(command, cwd=folder, env=environment)
    except OSError as error:
        raise StepError(f"cannot start `{command[0]}`: {error.strerror}") from None
    status = _wait_for_program(program, context, parent)
    if status:
        raise StepError(f"`{command[0]}` exited with status {status}", "see `recipe logs STAGE`")


def _wait_for_program(program: subprocess.Popen[bytes], context: StepContext, parent: int) -> int:
    """Wait for the program to exit. A stop request is forwarded to all its processes."""
    while True:
        try:
            return program.wait(timeout=_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if context.stop.requested:
                os.killpg(0, signal.SIGTERM)  # includes this worker, which has the request already
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(timeout=_GRACE_SECONDS)
                if os.getppid() != parent:  # no parent is left to clean up after this worker
                    os.killpg(0, signal.SIGKILL)
                raise Interrupted from None
