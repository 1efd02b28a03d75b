"""Runs `python -m MODULE ARGUMENTS` in forks of one interpreter that has imported the training stack.

`python tests/preloaded_interpreter.py SOCKET`. The client (`preloaded_client.py`) sends requests:

    {"argv": [module, *arguments], "env", "cwd"}    fork; with the descriptors of stdin, stdout and stderr
    {"reap": pid}                                   return the exit status of a fork that has exited

A fork runs the module like a new interpreter. It also forks the forkserver and the workers of a run, with the
same parent, arguments, environment and descriptors as a new process would have.
"""

import atexit
import contextlib
import ctypes
import gc
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

_GC_THRESHOLD = gc.get_threshold()
_MAX_MESSAGE_BYTES = 1 << 17
# Started by `recipe run` as `python -m MODULE`. Other programs start as new processes.
_FORKSERVER, _SUPERVISOR = "posttrain.runtime.forkserver", "posttrain.runtime.child_process"
_WORKER = "posttrain.runtime.worker"


def main(descriptor: int) -> None:
    client = socket.socket(fileno=descriptor)
    gc.disable()  # an import leaves hardly any garbage
    _import_stack()
    subprocess.Popen = _ForkingPopen
    request = _serve(client)
    if request is None:
        return
    argv, environment, cwd, streams = request
    os.chdir(cwd)
    _run_module(argv, environment, streams)


def _import_stack() -> None:
    """Import what `recipe run` and its most frequent steps import."""
    from posttrain.runtime.catalog import CATALOG
    from posttrain.runtime.execution import executor
    from posttrain.runtime.machine import installed_gpus
    from posttrain.runtime.verbs import export, model

    assert executor.__name__, "imports the runner of processes"
    import_module("posttrain.cli.run")
    found = [
        *(CATALOG.find("method", name) for name in ("sft", "grpo")),
        CATALOG.find("engine", "transformers"),
    ]
    for extension in (*found, export.EXTENSION, model.EXTENSION):
        for module in extension.preload:
            import_module(module)
    if find_spec("deepspeed") and not installed_gpus():
        # Where it is installed, every training imports it. It may open GPUs, which forks could not use then.
        import_module("deepspeed")


def _serve(client: socket.socket) -> tuple[list[str], dict[str, str], str, list[int]] | None:
    """Serve requests. Returns the request in a fork, and None when the client has gone."""
    gc.collect()
    gc.freeze()  # a collection in a fork would copy the memory of every module
    while True:
        data, streams, _, _ = socket.recv_fds(client, _MAX_MESSAGE_BYTES, 3)
        if not data:
            return None
        message = json.loads(data)
        if "reap" in message:
            _, status = os.waitpid(message["reap"], 0)
            client.send(json.dumps({"status": os.waitstatus_to_exitcode(status)}).encode())
            continue
        pid = os.fork()
        if pid == 0:
            return message["argv"], message["env"], message["cwd"], streams
        for stream in streams:
            os.close(stream)
        client.send(json.dumps({"pid": pid}).encode())


def _run_module(
    argv: Sequence[str], environment: Mapping[str, str], streams: Sequence[int], inherited: Sequence[int] = ()
) -> NoReturn:
    """Run a module like a new interpreter, then exit without freeing the memory of the imported modules."""
    status = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        _close_descriptors({0, 1, 2, *inherited})
        _become(argv, environment)
        sys.modules.pop(argv[0], None)  # runpy warns about a module that is imported already
        runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _become(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Take on what a new interpreter has: environment, arguments, import path, streams, handlers of signals,
    thresholds of the garbage collector and the thread count."""
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-m", *argv[1:]]
    sys.path[0] = str(Path.cwd())
    _set_command_line([sys.executable, "-m", *argv])
    unbuffered = bool(environment.get("PYTHONUNBUFFERED"))
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = sys.__stdout__ = _output_stream(1, "strict", line=os.isatty(1), unbuffered=unbuffered)
    sys.stderr = sys.__stderr__ = _output_stream(2, "backslashreplace", line=True, unbuffered=unbuffered)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.enable()
    gc.set_threshold(*_GC_THRESHOLD)
    if "OMP_NUM_THREADS" in environment:
        import_module("torch").set_num_threads(int(environment["OMP_NUM_THREADS"]))


def _output_stream(number: int, errors: str, *, line: bool, unbuffered: bool) -> io.TextIOWrapper:
    raw = io.FileIO(number, "w", closefd=False)
    binary: Any = raw if unbuffered else io.BufferedWriter(raw)
    return io.TextIOWrapper(binary, errors=errors, line_buffering=line, write_through=unbuffered)


def _set_command_line(argv: Sequence[str]) -> None:
    """Overwrite the arguments that /proc/PID/cmdline shows: tests find the processes of a run by them."""
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(stat[45]), int(stat[46])  # arg_start and arg_end of proc(5)
    text = b"".join(argument.encode() + b"\0" for argument in argv)
    ctypes.memmove(start, text[: end - start - 1].ljust(end - start, b"\0"), end - start)


def _is_forked(args: Any) -> bool:
    if list(args[:2]) != [sys.executable, "-m"]:
        return False
    return args[2] == _FORKSERVER or (args[2] == _SUPERVISOR and args[5] == _WORKER)


class _ForkingPopen(subprocess.Popen[Any]):
    """Forks a process of `recipe run` instead of starting a new interpreter."""

    def _execute_child(self, args: Any, *values: Any) -> None:
        # A fork copies only the calling thread: what other threads have locked remains locked. Threads of
        # libraries, as those of DuckDB, are idle here.
        alone = threading.active_count() == 1
        if not alone or not _is_forked(args):
            super()._execute_child(args, *values)
            return
        inherited, environment = values[3], values[5]
        pipes = values[9:15]  # in pairs: the ends of the child and of this process
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            gc.freeze()  # objects of the client are never finalized here: their descriptors are closed
            atexit._clear()
            os.setsid()
            _run_module(list(args[2:]), environment, (pipes[0], pipes[3], pipes[5]), inherited)
        self._child_created = True
        self._close_pipe_fds(*pipes)


def _close_descriptors(kept: set[int]) -> None:
    for entry in list(Path("/proc/self/fd").iterdir()):
        if int(entry.name) not in kept:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(int(entry.name))


if __name__ == "__main__":
    main(int(sys.argv[1]))
