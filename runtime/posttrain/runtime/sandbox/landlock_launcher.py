"""The launcher of the Landlock sandbox: `python -I -S landlock_launcher.py DESCRIPTOR`.

It reads the restrictions from the descriptor, applies them to itself, and executes the program.
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

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVS, _PDEATHSIG, _SECCOMP = 38, 1, 22
_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_EXECUTE, _READ_FILE, _READ_FOLDER, _WRITE_FILE = 1, 4, 8, 2
# The number of file access rights in each version of the Landlock ABI.
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_LATEST_RIGHTS = 16

_libc = ctypes.CDLL(None, use_errno=True)


def main(descriptor: int) -> None:
    with os.fdopen(descriptor, "rb") as file:
        terms: dict[str, Any] = json.load(file)
    _check_call(_libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if os.getppid() != terms["parent"]:
        os._exit(1)  # the parent ended before PDEATHSIG was set
    _drop_capabilities()
    _restrict_filesystem(terms["readable"])
    _set_limits(terms["limits"])
    _install_filter(base64.b64decode(terms["filter"]))
    command = terms["command"]
    os.execve(command[0], command, terms["environment"])


def _drop_capabilities() -> None:
    """Drop all capabilities, root's too. NO_NEW_PRIVS makes this permanent: no execve restores them."""
    _check_call(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    _check_call(_libc.capset(struct.pack("=II", _CAPABILITY_VERSION, 0), bytes(24)))


def _restrict_filesystem(readable: "list[str]") -> None:
    version = _check_call(_libc.syscall(_CREATE_RULESET, None, 0, 1))
    files = (1 << _RIGHTS_BY_ABI.get(version, _LATEST_RIGHTS)) - 1
    network, scopes = (3 if version >= 4 else 0), (3 if version >= 6 else 0)
    sizes = 8 * (1 + (version >= 4) + (version >= 6))
    rules = struct.pack("=QQQ", files, network, scopes)[:sizes]
    ruleset = _check_call(_libc.syscall(_CREATE_RULESET, rules, len(rules), 0))
    for path in readable:
        _allow_path(ruleset, path, _EXECUTE | _READ_FILE | _READ_FOLDER)
    _allow_path(ruleset, "/dev/null", _READ_FILE | _WRITE_FILE)
    for path in ("/dev/zero", "/dev/urandom", "/dev/random"):
        _allow_path(ruleset, path, _READ_FILE)
    _check_call(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    _check_call(_libc.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, descriptor), 0))
    os.close(descriptor)


def _set_limits(limits: "dict[str, int]") -> None:
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
    "msgqueue": 12,  # Python has no constants for these two
    "sigpending": 11,
}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("codes", ctypes.c_void_p)]


def _install_filter(codes: bytes) -> None:
    buffer = ctypes.create_string_buffer(codes, len(codes))
    program = _Program(len(codes) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    _check_call(_libc.prctl(_SECCOMP, 2, ctypes.byref(program), 0, 0))


def _check_call(result: int) -> int:
    """Return the result of a call. Raise OSError if it failed: the program must not run unrestricted."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


main(int(sys.argv[1]))
