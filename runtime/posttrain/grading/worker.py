"""The worker process, which grades pairs that exact arithmetic leaves undecided.

It reads one JSON line for each task, and replies with several. The kernel ends a worker that exceeds its
limit of CPU time. The worker exits with its parent, even if the parent is killed, and has a memory limit.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
from functools import lru_cache
from importlib import import_module
from typing import Any

from posttrain.grading.context import Outcome, SymbolicChecker
from posttrain.grading.numeric_equality import NumericChecker, missing_value
from posttrain.grading.options import Options
from posttrain.grading.pair_grading import grade_pair, read_reference
from posttrain.grading.step_meter import METER, StepLimit

PR_SET_PDEATHSIG = 1
MEMORY_BYTES = 2 * 1024**3
CPU_LIMIT_SIGNAL = signal.SIGPROF


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
    """Let the kernel end this process after this much more CPU time. 0 removes the limit."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def handle_task(task: dict[str, Any], replies: Any) -> None:
    """Grade a pair, the reference alone first: if that exceeds a limit, it is not the candidate's fault."""
    options, cpu_seconds = Options(**task["options"]), task["cpu_seconds"]
    limit_cpu_time(cpu_seconds)
    try:
        unknown = unknown_reference(task["reference"], options)
    except Exception as error:
        reason = f"the reference exceeds a limit: {limit_reason(error)}"
        return _send_final(replies, Outcome(None, reason, "limit"))
    _send(replies, {"stage": "grading"})
    limit_cpu_time(cpu_seconds)
    first = settle(grade_task(task, options, NumericChecker()), unknown)
    limit_cpu_time(0)
    if not (first.equal and first.path == "symbolic" and options.proof_timeout_s > 0):
        return _send_final(replies, first)
    _send(replies, {"stage": "proving", "outcome": first})
    import_module("sympy")  # the import must not count against the time limit of the proof
    from posttrain.grading.sympy_proof import SympyChecker

    limit_cpu_time(options.proof_timeout_s)
    proved = grade_task(task, options, SympyChecker())
    limit_cpu_time(0)
    return _send_final(replies, proved if proved.equal else first)


@lru_cache(maxsize=1024)
def unknown_reference(reference: str, options: Options) -> str | None:
    """Why the reference alone has no value that can be computed, or None. Raises StepLimit."""
    METER.restart()
    reasons = [missing_value(node) for node in read_reference(reference, options)]
    return None if None in reasons or not reasons else reasons[0]


def settle(outcome: Outcome, unknown: str | None) -> Outcome:
    """A candidate that is not shown to be equal is wrong, unless the reference is the cause."""
    if outcome.equal is not None:
        return outcome
    if unknown:
        return Outcome(None, f"the reference has no value that can be computed: {unknown}", "limit")
    return Outcome(False, f"not shown to be equal: {outcome.reason}", outcome.path)


def grade_task(task: dict[str, Any], options: Options, symbolic: SymbolicChecker) -> Outcome:
    METER.restart()
    try:
        return grade_pair(task["candidate"], task["reference"], options, symbolic)
    except Exception as error:
        return Outcome(False, f"the candidate exceeds a limit: {limit_reason(error)}", "limit")


def limit_reason(error: Exception) -> str:
    match error:
        case StepLimit():
            return str(error)
        case MemoryError():
            return f"more than {MEMORY_BYTES // 1024**3} GiB of memory"
        case RecursionError():
            return "an expression nested too deep"
        case _:
            return f"internal error: {type(error).__name__}"


def _send_final(replies: Any, outcome: Outcome) -> None:
    _send(replies, {"stage": "done", "outcome": outcome})


def _send(replies: Any, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
