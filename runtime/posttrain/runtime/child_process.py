"""Runs a module in a child process, and ends all processes that it leaves behind.

`python -m posttrain.runtime.child_process PARENT SIGNAL MODULE ...`

This process is the supervisor. It passes SIGTERM on to the child, and exits with the status of the child.
When its own parent PARENT dies, the child receives SIGNAL, and every other descendant SIGTERM, so that
programs can end their own children. What still runs 10 seconds later is killed. A descendant cannot escape by
a new session or a double fork: the supervisor is their subreaper (`process_tree.py`). After SIGUSR1
(`kill_supervised`) it kills them all at once.
"""

import os
import runpy
import signal
import subprocess
import sys
from typing import NoReturn

from posttrain.runtime.process_tree import (
    GRACE_SECONDS,
    KILL_SECONDS,
    become_subreaper,
    die_with_parent,
    end_descendants,
    kill_tree,
)

_KILL = signal.SIGUSR1
_HANDLED = (signal.SIGTERM, signal.SIGCHLD, _KILL)
_POLL_SECONDS = 1.0  # a lost signal delays the supervisor by this at most
_PARENT_IS_GONE = 1


def supervised_command(module: str, *arguments: str, end_signal: signal.Signals) -> list[str]:
    """The command that runs a module under a supervisor whose parent is this process."""
    supervisor = [sys.executable, "-m", "posttrain.runtime.child_process", str(os.getpid())]
    return [*supervisor, str(int(end_signal)), module, *arguments]


def kill_supervised(process: subprocess.Popen[bytes]) -> None:
    """Kill a supervised program with its descendants, and wait for the end.

    Its supervisor does this, so that none of them remains if the caller dies meanwhile.
    """
    process.send_signal(_KILL)
    try:
        process.wait(KILL_SECONDS)
    except subprocess.TimeoutExpired:  # the supervisor is stopped
        kill_tree(process.pid)
        process.wait()


def main(parent: int, end_signal: int, argv: list[str]) -> NoReturn:
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client handles interrupts
    die_with_parent(parent, signal.SIGTERM)
    become_subreaper()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
        die_with_parent(os.getppid())
        sys.argv[1:] = argv[1:]
        runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
        raise SystemExit(0)
    _supervise(parent, child, end_signal)


def _supervise(parent: int, child: int, end_signal: int) -> NoReturn:
    while True:
        received = signal.sigtimedwait(_HANDLED, _POLL_SECONDS)
        if os.getppid() != parent:
            os.kill(child, end_signal)
            end_descendants(grace_seconds=GRACE_SECONDS)
            os._exit(_PARENT_IS_GONE)
        if received is not None and received.si_signo == _KILL:
            end_descendants()
        if received is not None and received.si_signo == signal.SIGTERM:
            os.kill(child, signal.SIGTERM)
        status = _reap(child)
        if status is not None:
            end_descendants()
            _exit_like(status)


def _reap(child: int) -> int | None:
    """Reap the processes that have ended, and return the exit code of the child if it is among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def _exit_like(status: int) -> NoReturn:
    """Exit with the status of the child. If a signal ended it, the same one ends this process."""
    if status < 0:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [-status])
        os.kill(os.getpid(), -status)
    os._exit(abs(status))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
