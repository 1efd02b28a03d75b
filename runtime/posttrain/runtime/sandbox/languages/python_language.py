"""Python programs, run by the interpreter that runs this, without its packages."""

import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from posttrain.runtime.sandbox.languages import InputMode, Language
from posttrain.runtime.sandbox.limits import RunResult, Verdict

_NOT_COMPILED, _NO_MEMORY, _NO_RESULT = 91, 92, 93  # the driver's


def interpreter() -> Path:
    """The program behind the environment that this runs in."""
    return Path(getattr(sys, "_base_executable", "") or sys.executable)


@cache
def _read_folders() -> Sequence[str]:
    """Where the interpreter and its libraries lie."""
    folders = {sys.base_prefix, sys.base_exec_prefix, str(interpreter().parent)}
    # Its own library may lie elsewhere; one that is part of the interpreter itself is not listed.
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


def _command(folder: str, way: InputMode, begun: int) -> Sequence[str]:
    # Not -I: it would ignore PYTHONHASHSEED, and a set's order would differ from run to run. What else
    # it ignores is not there: the environment holds nothing but what stands below.
    options = ["-s", "-S", "-P", "-B", "-X", "utf8"]
    return [str(interpreter()), *options, f"{folder}/driver.py", f"{folder}/program.py", way, str(begun)]


def _describe_failure(ended: RunResult) -> tuple[Verdict, str]:
    said = ended.last_error_line
    if ended.status == _NO_MEMORY:
        return "memory", "MemoryError"
    if ended.status == _NOT_COMPILED:
        return "crashed", f"does not compile: {said}"
    if ended.status == _NO_RESULT:
        return "crashed", f"gave nothing that can be passed on: {said}"
    return "crashed", said or f"ended with status {ended.status}"


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
        "MALLOC_ARENA_MAX": "2",  # every further one takes 64 MiB of the room for addresses
    },
    describe_failure=_describe_failure,
    fails_for_every_input=lambda ended: ended.outcome == "exited" and ended.status == _NOT_COMPILED,
)
