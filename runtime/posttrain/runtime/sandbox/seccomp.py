"""Compiles the seccomp filter for the system calls of a program to BPF bytecode.

A filter is a short list of jumps, so this needs no library that might be missing where programs run.
"""

import platform
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from posttrain.runtime.sandbox.syscalls import ALLOWED, FORBIDDEN, OWN_FILES_ONLY, SELF_ONLY, SYSCALL_NUMBERS

# Instructions of classic BPF, and the offsets of the fields of struct seccomp_data.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24

_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERROR = 0x00050000
_EPERM, _EAGAIN, _ENOSYS = 1, 11, 38

_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000  # the system calls of the x32 ABI on x86-64

_THREAD = 0x00010000  # CLONE_THREAD
_NAMESPACES = 0x7E020000  # CLONE_NEW* except CLONE_NEWTIME, which only unshare and clone3 accept
_AF_UNIX = 1  # AF_UNIX
_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: inject input into a terminal
_OWNER_IOCTL = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP
_OWNER_FCNTL = (8, 15)  # F_SETOWN, F_SETOWN_EX: send signals to other processes through a file

Instruction = tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class Policy:
    # Whether the program may start further processes, and further threads.
    processes: bool = False
    threads: bool = True
    # The process ID of the program, in a sandbox without a process namespace.
    own_pid: int | None = None


class UnsupportedMachine(Exception):
    """The system calls of this machine's architecture are unknown."""


def compile_filter(policy: Policy, machine: str | None = None) -> bytes:
    """The filter for an architecture, by default this machine's."""
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise UnsupportedMachine(f"unsupported architecture {machine}")
    return b"".join(struct.pack("=HBBI", *code) for code in _instructions(policy, machine))


def _instructions(policy: Policy, machine: str) -> list[Instruction]:
    codes = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, _MACHINES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        codes += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    for name, body in _rules(policy):
        number = SYSCALL_NUMBERS[name][machine]
        if number is not None:
            codes += [(_EQUAL, 0, len(body), number), *body]
    return [*codes, *_return_errno(_ENOSYS)]


def _rules(policy: Policy) -> Iterable[tuple[str, Sequence[Instruction]]]:
    """The instructions for each system call. They always end with a return."""
    yield "clone", _clone(policy)
    for name in ("fork", "vfork"):
        yield name, _return(_ALLOW if policy.processes else _KILL)
    yield "socket", _socket()
    shared = policy.own_pid is not None
    yield "ioctl", _kill_on_argument(_SECOND, (*_TERMINAL, *(_OWNER_IOCTL if shared else ())))
    yield "fcntl", _kill_on_argument(_SECOND, _OWNER_FCNTL if shared else ())
    for name in SELF_ONLY:
        yield name, _allow_on_self(policy.own_pid) if policy.own_pid is not None else _return(_ALLOW)
    for name in OWN_FILES_ONLY:
        yield name, _return_errno(_EPERM) if shared else _return(_ALLOW)
    for name in ALLOWED:
        yield name, _return(_ALLOW)
    for name in FORBIDDEN:
        yield name, _return(_KILL)


def _clone(policy: Policy) -> list[Instruction]:
    """Allow threads and processes as the policy says, and never a new namespace.

    A filter cannot read the flags of clone3, which are in memory. clone3 fails with ENOSYS, and the C library
    falls back to clone.
    """
    thread = _return(_ALLOW) if policy.threads else _return_errno(_EAGAIN)
    other = _return(_ALLOW if policy.processes else _KILL)
    return [
        (_LOAD, 0, 0, _FIRST),
        (_ANY_BIT, 0, 1, _NAMESPACES),
        *_return(_KILL),
        (_ANY_BIT, 0, len(thread), _THREAD),
        *thread,
        *other,
    ]


def _socket() -> list[Instruction]:
    """Allow no sockets. AF_UNIX fails with EPERM, because the C library tries it to look up user names."""
    return [(_LOAD, 0, 0, _FIRST), (_EQUAL, 0, 1, _AF_UNIX), *_return_errno(_EPERM), *_return(_KILL)]


def _kill_on_argument(place: int, values: Sequence[int]) -> list[Instruction]:
    codes: list[Instruction] = [(_LOAD, 0, 0, place)]
    for value in values:
        codes += [(_EQUAL, 0, 1, value), *_return(_KILL)]
    return [*codes, *_return(_ALLOW)]


def _allow_on_self(pid: int) -> list[Instruction]:
    """Allow the call if its first argument is the program's process ID or 0 (itself or its own group)."""
    return [
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 1, 0, pid),
        (_EQUAL, 0, 1, 0),
        *_return(_ALLOW),
        *_return(_KILL),
    ]


def _return(action: int) -> list[Instruction]:
    return [(_RETURN, 0, 0, action)]


def _return_errno(number: int) -> list[Instruction]:
    return _return(_ERROR | number)
