"""Runs a program of the user's over declared inputs; what it writes to $OUT is the product."""

import os
import subprocess

from posttrain.runtime.context import Context
from posttrain.runtime.faults import StepFault
from posttrain.spec.extension import Verb

EXTENSION = Verb(name="script", summary="A program of the user's.")


def run(context: Context) -> None:
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
    try:
        done = subprocess.run(command, cwd=folder, env=environment, check=False)
    except OSError as error:
        raise StepFault(f"`{command[0]}` cannot be started: {error.strerror}") from None
    if done.returncode:
        raise StepFault(f"`{command[0]}` ended with status {done.returncode}", "see `recipe logs STAGE`")
