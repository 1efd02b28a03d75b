"""Imports the heavy modules once, and forks a worker for each step.

`python -m posttrain.runtime.forkserver SOCKET PARENT`. The client sends requests over the socket:

    {"import": [modules]}                               import these when idle
    {"start": id, "work", "env", "threads", "gpus", "import"}
                                                        fork a worker; with the lock and log descriptors

and receives {"started": id, "pid"} and {"ended": id, "status"}. The forkserver never touches a GPU and
starts no thread: a worker inherits imported modules, and no state that its result could depend on. If an
imported library has touched CUDA all the same, a worker with GPUs starts as a new program.

The garbage collector of a worker skips what it inherits. A collection would otherwise visit, and copy, the
memory of every imported module, which takes as long as a short training.

When a worker ends, or the client, the forkserver ends all processes that they leave behind. It keeps the lock
of a step until then.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
from collections import deque
from collections.abc import Iterable
from importlib import import_module, reload
from pathlib import Path
from typing import Any, NoReturn

from posttrain.runtime.fork_safe_imports import can_use_gpus_after_fork, fork_safe_imports
from posttrain.runtime.process_tree import GRACE_SECONDS, become_subreaper, die_with_parent, end_descendants

_MAX_MESSAGE_BYTES = 1 << 16
# Their attributes are variables of the environment, which other modules read from them at each use.
_SETTINGS_MODULES = ("huggingface_hub.constants", "datasets.config")


def main(descriptor: int, parent: int) -> None:
    forkserver = _Forkserver(socket.socket(fileno=descriptor))
    signal.signal(signal.SIGTERM, forkserver.end)  # also in the middle of an import
    die_with_parent(parent, signal.SIGTERM)
    become_subreaper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client handles interrupts
    gc.disable()  # an import leaves hardly any garbage
    forkserver.serve()
    forkserver.end()


class _Forkserver:
    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.pending_imports: deque[str] = deque()
        # (pid, number of the client, lock) by pidfd, which becomes readable when the worker exits.
        self.workers: dict[int, tuple[int, int, int]] = {}

    def serve(self) -> None:
        """Serve requests until the client closes the connection."""
        while True:
            # With an import pending, only poll: requests and exits come first.
            readable, _, _ = select.select(
                [self.client, *self.workers], [], [], 0 if self.pending_imports else None
            )
            for ended in self.workers.keys() & readable:
                self._reap(ended)
            if self.client in readable and not self._handle_request():
                return
            if not readable and self.pending_imports:
                _import_quietly([self.pending_imports.popleft()])

    def _handle_request(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self.client, _MAX_MESSAGE_BYTES, 2)
        if not data:
            return False
        message = json.loads(data)
        if "import" in message and "start" not in message:
            self.pending_imports.extend(message["import"])
        else:
            self._fork_worker(message, *descriptors)
        return True

    def _fork_worker(self, message: dict[str, Any], lock: int, log: int) -> None:
        _import_quietly(message["import"])
        gc.freeze()
        parent = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # its handler is not for the worker
        pid = os.fork()
        if pid == 0:
            gc.enable()
            self.client.close()
            for _, _, other in self.workers.values():
                os.close(other)  # the lock of another step
            _run_worker(message, lock, log, parent)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        os.close(log)
        self.workers[os.pidfd_open(pid)] = pid, message["start"], lock
        self._send({"started": message["start"], "pid": pid})

    def _reap(self, ended: int) -> None:
        pid, number, lock = self.workers.pop(ended)
        os.close(ended)
        _, status = os.waitpid(pid, 0)
        end_descendants(spared=[pid for pid, _, _ in self.workers.values()])
        os.close(lock)
        self._send({"ended": number, "status": os.waitstatus_to_exitcode(status)})

    def end(self, *_signal: Any) -> NoReturn:
        """Kill the workers, end what they have started, and exit."""
        for pid, _, _ in self.workers.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        end_descendants(grace_seconds=GRACE_SECONDS)
        os._exit(0)

    def _send(self, message: dict[str, Any]) -> None:
        self.client.send(json.dumps(message).encode())


def _import_quietly(modules: Iterable[str]) -> None:
    new = [module for module in modules if module not in sys.modules]
    if not new:
        return
    with fork_safe_imports():
        for module in new:
            # The step itself reports a missing or broken module.
            with contextlib.suppress(Exception):
                import_module(module)


def _reload_settings() -> None:
    """Evaluate the variables again that libraries read at their import, before the fork."""
    for name in _SETTINGS_MODULES:
        if name in sys.modules:
            with contextlib.suppress(Exception):  # as for the import of the module itself
                reload(sys.modules[name])


def _run_worker(message: dict[str, Any], lock: int, log: int, parent: int) -> None:
    """Run in the forked child, which from here on behaves like a worker started as its own process."""
    from posttrain.runtime import worker

    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    die_with_parent(parent)
    become_subreaper()  # so that this process is the ancestor of all that the step starts
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ.update(message["env"])
    if message["gpus"] and not can_use_gpus_after_fork():
        os.set_inheritable(lock, True)
        os.execv(sys.executable, [sys.executable, "-m", "posttrain.runtime.worker", message["work"]])
    _reload_settings()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(message["threads"])
    worker.exit_process(worker.main(Path(message["work"])))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
