"""Runs inside the weaker box, before the program: `python -I -S enter.py DESCRIPTOR`.

It reads its terms there, puts the walls up around itself, and becomes the program.
"""

import base64
import ctypes
import json
import os
import resource
import signal
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_NO_NEW_RIGHTS, _END_WITH_PARENT, _SECCOMP = 38, 1, 22
_CAPABILITIES = 0x20080522  # the version of the form in which they are told
_EXECUTE, _READ_FILE, _READ_FOLDER, _WRITE_FILE = 1, 4, 8, 2
# How many of the rights over files each version of Landlock knows.
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_MOST_RIGHTS = 16

_libc = ctypes.CDLL(None, use_errno=True)


def main(told: int) -> None:
    with os.fdopen(told, "rb") as file:
        terms: dict[str, Any] = json.load(file)
    _must(_libc.prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0))
    if os.getppid() != terms["parent"]:
        os._exit(1)  # it ended before it could be waited for
    _give_up_rights()
    _close_disk(terms["readable"])
    _limit(terms["limits"])
    _filter(base64.b64decode(terms["filter"]))
    command = terms["command"]
    os.execve(command[0], command, terms["environment"])


def _give_up_rights() -> None:
    """Those of root too, for good: no program gives rights back to who may not have new ones."""
    _must(_libc.prctl(_NO_NEW_RIGHTS, 1, 0, 0, 0))
    _must(_libc.capset(struct.pack("=II", _CAPABILITIES, 0), bytes(24)))


def _close_disk(readable: "list[str]") -> None:
    version = _must(_libc.syscall(_CREATE, None, 0, 1))
    files = (1 << _RIGHTS.get(version, _MOST_RIGHTS)) - 1
    network, scopes = (3 if version >= 4 else 0), (3 if version >= 6 else 0)
    sizes = 8 * (1 + (version >= 4) + (version >= 6))
    rules = struct.pack("=QQQ", files, network, scopes)[:sizes]
    walls = _must(_libc.syscall(_CREATE, rules, len(rules), 0))
    for path in readable:
        _open_up(walls, path, _EXECUTE | _READ_FILE | _READ_FOLDER)
    _open_up(walls, "/dev/null", _READ_FILE | _WRITE_FILE)
    for path in ("/dev/zero", "/dev/urandom", "/dev/random"):
        _open_up(walls, path, _READ_FILE)
    _must(_libc.syscall(_RESTRICT, walls, 0))
    os.close(walls)


def _open_up(walls: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    _must(_libc.syscall(_ADD, walls, 1, struct.pack("=Qi", rights, place), 0))
    os.close(place)


def _limit(limits: "dict[str, int]") -> None:
    for name, value in limits.items():
        if name == "cpu":
            resource.setrlimit(resource.RLIMIT_CPU, (value, value + 1))
        else:
            resource.setrlimit(_LIMITS[name], (value, value))


_LIMITS = {
    "as": resource.RLIMIT_AS,
    "fsize": resource.RLIMIT_FSIZE,
    "nofile": resource.RLIMIT_NOFILE,
    "core": resource.RLIMIT_CORE,
    "memlock": resource.RLIMIT_MEMLOCK,
    "stack": resource.RLIMIT_STACK,
    "msgqueue": 12,  # no names in Python
    "sigpending": 11,
}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("codes", ctypes.c_void_p)]


def _filter(codes: bytes) -> None:
    kept = ctypes.create_string_buffer(codes, len(codes))
    program = _Program(len(codes) // 8, ctypes.cast(kept, ctypes.c_void_p))
    _must(_libc.prctl(_SECCOMP, 2, ctypes.byref(program), 0, 0))


def _must(result: int) -> int:
    """What a call gave; a wall that cannot be put up ends everything."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


main(int(sys.argv[1]))
