"""The worker process, which grades pairs that exact arithmetic leaves undecided.

It reads one JSON line for each task, and replies with one or two. The pool kills a worker that exceeds its
time limit. The worker exits with its parent, even if the parent is killed, and has memory and CPU limits.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
from importlib import import_module
from typing import Any

from posttrain.grading.context import Outcome, SymbolicChecker
from posttrain.grading.numeric_equality import NumericChecker
from posttrain.grading.options import Options
from posttrain.grading.pair_grading import grade_pair

PR_SET_PDEATHSIG = 1
MEMORY_BYTES = 2 * 1024**3
CPU_GRACE_SECONDS = 2


def main(parent: int) -> None:
    die_with_parent(parent)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    import_module("mpmath")  # the import must not count against the time limit of the first task
    replies = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    _send(replies, {"ready": True})
    for line in sys.stdin:
        handle_task(json.loads(line), replies)


def die_with_parent(parent: int) -> None:
    """End this process with its parent. Outside Linux, the closed pipe and the CPU limit end it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def limit_cpu_time(seconds: float) -> None:
    """Limit the CPU time, so that the kernel ends this process if its parent cannot."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    _, hard_limit = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + seconds) + CPU_GRACE_SECONDS, hard_limit))


def handle_task(task: dict[str, Any], replies: Any) -> None:
    options = Options(**task["options"])
    limit_cpu_time(task["timeout_s"] + options.proof_timeout_s)
    first = grade_task(task, options, NumericChecker())
    if not (first.equal and first.path == "symbolic" and options.proof_timeout_s > 0):
        return _send(replies, {"outcome": first, "final": True})
    _send(replies, {"outcome": first, "final": False})
    import_module("sympy")  # the import must not count against the time limit of the proof
    from posttrain.grading.sympy_proof import SympyChecker

    _send(replies, {"proving": True})
    proved = grade_task(task, options, SympyChecker())
    return _send(replies, {"outcome": proved if proved.equal else first, "final": True})


def grade_task(task: dict[str, Any], options: Options, symbolic: SymbolicChecker) -> Outcome:
    try:
        return grade_pair(task["candidate"], task["reference"], options, symbolic)
    except MemoryError:
        return Outcome(None, "a worker ran out of memory", "limit")
    except Exception as error:
        return Outcome(None, f"internal error in a worker: {type(error).__name__}", "limit")


def _send(replies: Any, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
