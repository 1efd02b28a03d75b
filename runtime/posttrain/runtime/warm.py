"""A process that has the heavy imports done and forks a worker for each step.

`python -m posttrain.runtime.warm SOCKET PARENT`. The client asks over the socket:

    {"import": [modules]}                               import these when nothing else is to be done
    {"start": id, "work", "env", "threads", "import"}   fork a worker; with the lock and log descriptors

and is told {"started": id, "pid"} and {"ended": id, "status"}. Nothing here touches a GPU or starts a
thread: what a worker inherits is modules, and nothing that its result could depend on.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
from collections import deque
from importlib import import_module
from pathlib import Path
from typing import Any

_MESSAGE = 1 << 16


def main(descriptor: int, parent: int) -> None:
    from posttrain.runtime.worker import die_with

    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client decides what an interrupt means
    _Warm(socket.socket(fileno=descriptor)).serve()


class _Warm:
    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.wanted: deque[str] = deque()
        # The workers, by descriptors that become readable at their end: (pid, the client's number).
        self.children: dict[int, tuple[int, int]] = {}

    def serve(self) -> None:
        """Answer until the client is gone."""
        while True:
            # With an import to do, look only whether there is something more urgent.
            readable, _, _ = select.select([self.client, *self.children], [], [], 0 if self.wanted else None)
            for ended in self.children.keys() & readable:
                self._reap(ended)
            if self.client in readable and not self._answer():
                return
            if not readable and self.wanted:
                _import(self.wanted.popleft())

    def _answer(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self.client, _MESSAGE, 2)
        if not data:
            return False
        message = json.loads(data)
        if "import" in message and "start" not in message:
            self.wanted.extend(message["import"])
        else:
            self._start(message, *descriptors)
        return True

    def _start(self, message: dict[str, Any], lock: int, log: int) -> None:
        for module in message["import"]:
            _import(module)
        pid = os.fork()
        if pid == 0:
            self.client.close()
            _become_worker(message, log)
        os.close(lock)  # the worker holds it from here on
        os.close(log)
        self.children[os.pidfd_open(pid)] = pid, message["start"]
        self._tell({"started": message["start"], "pid": pid})

    def _reap(self, ended: int) -> None:
        pid, number = self.children.pop(ended)
        os.close(ended)
        _, status = os.waitpid(pid, 0)
        self._tell({"ended": number, "status": os.waitstatus_to_exitcode(status)})

    def _tell(self, message: dict[str, Any]) -> None:
        self.client.send(json.dumps(message).encode())


def _import(module: str) -> None:
    # A module that is missing or broken is the step's matter: it will say so itself.
    with contextlib.suppress(Exception):
        import_module(module)


def _become_worker(message: dict[str, Any], log: int) -> None:
    """In the forked child: from here on like a worker that was started by itself."""
    from posttrain.runtime import worker

    os.setsid()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ.update(message["env"])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    worker.die_with(os.getppid())
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(message["threads"])
    worker.leave(worker.main(Path(message["work"])))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
