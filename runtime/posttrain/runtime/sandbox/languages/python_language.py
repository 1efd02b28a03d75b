"""Python programs, run by the interpreter of this process without its installed packages."""

import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from posttrain.runtime.sandbox.languages import InputMode, Language
from posttrain.runtime.sandbox.limits import RunResult, Verdict

_NOT_COMPILED, _NO_MEMORY, _NO_RESULT = 91, 92, 93  # the exit statuses of the driver


def interpreter() -> Path:
    """The base interpreter of the virtual environment."""
    return Path(getattr(sys, "_base_executable", "") or sys.executable)


@cache
def _read_folders() -> Sequence[str]:
    """The folders of the interpreter and its libraries."""
    folders = {sys.base_prefix, sys.base_exec_prefix, str(interpreter().parent)}
    # A shared libpython may be in another folder. A static one is not in the map.
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/libpython" in line:
            folders.add(str(Path(line.split(maxsplit=5)[5]).parent))
    real = sorted({os.path.realpath(folder) for folder in folders} | folders)
    return [
        one for one in real if not any(_is_within(one, other) for other in ("/usr", *real) if other != one)
    ]


def _is_within(folder: str, other: str) -> bool:
    return folder.startswith(other + "/") or folder == "/usr"


def _files() -> Mapping[str, bytes]:
    return {"driver.py": Path(__file__).with_name("python_driver.py").read_bytes()}


def _command(folder: str, input_mode: InputMode, started: int) -> Sequence[str]:
    # Without -I, which would ignore PYTHONHASHSEED and make the order of sets random. The environment has
    # only the variables listed below, so -I is not needed.
    options = ["-s", "-S", "-P", "-B", "-X", "utf8"]
    return [
        str(interpreter()),
        *options,
        f"{folder}/driver.py",
        f"{folder}/program.py",
        input_mode,
        str(started),
    ]


def _describe_failure(ended: RunResult) -> tuple[Verdict, str]:
    message = ended.last_error_line
    if ended.status == _NO_MEMORY:
        return "memory", "MemoryError"
    if ended.status == _NOT_COMPILED:
        return "crashed", f"does not compile: {message}"
    if ended.status == _NO_RESULT:
        return "crashed", f"returned a value that is not JSON: {message}"
    return "crashed", message or f"exited with status {ended.status}"


LANGUAGE = Language(
    name="python",
    read_folders=_read_folders,
    files=_files,
    program_file="program.py",
    command=_command,
    environment={
        "PYTHONHASHSEED": "0",
        "LANG": "C.UTF-8",
        "HOME": "/",
        "PATH": "/usr/bin",
        "MALLOC_ARENA_MAX": "2",  # every further arena takes 64 MiB of address space
    },
    describe_failure=_describe_failure,
    fails_for_every_input=lambda ended: ended.outcome == "exited" and ended.status == _NOT_COMPILED,
)
