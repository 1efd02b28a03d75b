"""Runs steps as processes on this machine.

Steps with heavy imports are forked from a forkserver that has imported the modules already. Other steps
start as new processes. Either way, a worker dies with its parent.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.child_process import kill_supervised, supervised_command
from posttrain.runtime.plan_params import read_step_params
from posttrain.runtime.process_environment import forkserver_environment, step_environment
from posttrain.spec.extension import Extension, Runner
from posttrain.spec.plan import Plan, Step
from posttrain.spec.step_params.generation_params import GenerationParams

EXTENSION = Runner(name="process", summary="A process on this machine.")
_KILLED = -9


@dataclass
class ProcessHandle:
    """A running step: a child process, or the number of a worker of the forkserver."""

    process: subprocess.Popen[bytes] | None = None
    number: int = 0
    pid: int | None = None
    status: int | None = None


class ProcessRunner:
    """Starts, polls and stops workers."""

    def __init__(self, *, use_forkserver: bool = True) -> None:
        self._use_forkserver = use_forkserver
        self._forkserver: _ForkserverClient | None = None
        self._forkserver_log = Path()

    def prepare(self, plan: Plan, ids: Sequence[str], folder: Path) -> None:
        """Start the forkserver with the imports that the steps of this run need."""
        heavy = list(dict.fromkeys(m for step in plan.steps if step.id in ids for m in heavy_imports(step)))
        self.preload(heavy, folder / "forkserver.log")

    def preload(self, modules: Sequence[str], log: Path) -> None:
        """Start the forkserver with these imports, unless it runs."""
        if modules and self._use_forkserver and self._forkserver is None:
            self._forkserver_log = log
            self._forkserver = _ForkserverClient(log)
            self._forkserver.preload(modules)

    def attach(self, work: Path, step: Step) -> ProcessHandle | None:
        """Always None: a worker on this machine dies with its client."""
        return None

    def start(
        self,
        work: Path,
        step: Step,
        secrets: Mapping[str, str],
        lock: int,
        gpus: tuple[str, ...] | None = None,
    ) -> ProcessHandle:
        """Start the step in `work`. The worker inherits the descriptor `lock`."""
        environment = step_environment(step, work, os.environ) | dict(secrets)
        if gpus is not None:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        with (work / "record" / "log").open("ab") as log:
            heavy = heavy_imports(step)
            if heavy and self._forkserver is not None:
                return self._ensure_forkserver(self._forkserver).start(
                    work, step, environment, heavy, lock, log.fileno()
                )
            process = subprocess.Popen(
                supervised_command("posttrain.runtime.worker", str(work), end_signal=signal.SIGKILL),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=(lock,),
                start_new_session=True,
            )
        return ProcessHandle(process=process, pid=process.pid)

    def _ensure_forkserver(self, client: "_ForkserverClient") -> "_ForkserverClient":
        """The forkserver, or a new one when it was killed."""
        client.receive()
        if client.exited:
            client.close()
            client = self._forkserver = _ForkserverClient(self._forkserver_log)
        return client

    def poll(self, handle: ProcessHandle) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        if handle.process is not None:
            handle.status = handle.process.poll()
        else:
            assert self._forkserver is not None, "a forked step has a forkserver"
            self._forkserver.receive()
        if handle.status is not None and handle.pid is not None:
            with contextlib.suppress(ProcessLookupError):  # in case that its supervisor was killed
                os.killpg(handle.pid, signal.SIGKILL)
            handle.pid = None
        return handle.status

    def has_no_job(self, work: Path) -> bool:
        """Never certain: another machine can run the step."""
        return False

    def outage(self) -> str | None:
        return None

    def queue_reason(self, handle: ProcessHandle) -> str | None:
        """None: a step runs as soon as it was started."""
        return None

    def stop(self, handle: ProcessHandle, *, now: bool = False) -> None:
        """Request the step to save its state and exit; with `now`, kill it and its children."""
        if self.poll(handle) is not None:
            return
        if handle.pid is None:
            assert self._forkserver is not None, "a forked step has a forkserver"
            self._forkserver.end_unstarted()
            return
        if not now:
            with contextlib.suppress(
                ProcessLookupError
            ):  # it has ended since the poll; the next one says how
                os.kill(handle.pid, signal.SIGTERM)
            return
        if handle.process is not None:
            kill_supervised(handle.process)
        else:  # the forkserver, its subreaper, kills the descendants of a worker that has ended
            with contextlib.suppress(ProcessLookupError):
                os.kill(handle.pid, signal.SIGKILL)

    def close(self) -> None:
        if self._forkserver is not None:
            self._forkserver.close()
            self._forkserver = None


class _ForkserverClient:
    """The client side of the connection to the forkserver."""

    def __init__(self, log: Path) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "posttrain.runtime.forkserver",
                    str(theirs.fileno()),
                    str(os.getpid()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=forkserver_environment(os.environ),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        theirs.close()
        ours.setblocking(False)
        self.socket = ours
        self.handles: dict[int, ProcessHandle] = {}
        self.exited = False

    def preload(self, modules: Sequence[str]) -> None:
        self.socket.send(json.dumps({"import": list(modules)}).encode())

    def start(
        self,
        work: Path,
        step: Step,
        environment: Mapping[str, str],
        modules: Sequence[str],
        lock: int,
        log: int,
    ) -> ProcessHandle:
        handle = ProcessHandle(number=len(self.handles) + 1)
        self.handles[handle.number] = handle
        message: dict[str, Any] = {
            "start": handle.number,
            "work": str(work),
            "env": dict(environment),
            "threads": step.resources.cpus,
            "gpus": step.resources.gpus,
            "import": list(modules),
        }
        try:
            socket.send_fds(self.socket, [json.dumps(message).encode()], [lock, log])
        except OSError:
            handle.status = _KILLED
        return handle

    def receive(self) -> None:
        """Handle the messages of the forkserver."""
        while True:
            try:
                data = self.socket.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:  # the forkserver is gone, and its workers with it
                self.exited = True
                for handle in self.handles.values():
                    handle.status = _KILLED if handle.status is None else handle.status
                return
            message = json.loads(data)
            handle = self.handles[message.get("started") or message["ended"]]
            if "started" in message:
                handle.pid = message["pid"]
            else:
                handle.status = message["status"]

    def end_unstarted(self) -> None:
        """End the requested steps that have no worker yet, because the forkserver imports their modules.

        It serves no request meanwhile, so it is killed, unless it has other workers: a step that it starts
        next to them is stopped then.
        """
        if any(handle.pid is not None and handle.status is None for handle in self.handles.values()):
            return
        self.process.kill()
        self.process.wait()
        self.receive()

    def close(self) -> None:
        self.socket.close()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:  # during an import
            self.process.kill()
            self.process.wait()


def heavy_imports(step: Step) -> tuple[str, ...]:
    """The slow modules that the code of the step imports."""
    module = import_module(step.entry.partition(":")[0])
    params = read_step_params(step)
    models = params.models if isinstance(params, GenerationParams) else ()
    extensions = (
        getattr(module, "EXTENSION", None),
        *(CATALOG.find("engine", name) for name in sorted({model.engine for model in models})),
    )
    modules = (name for one in extensions if isinstance(one, Extension) for name in one.preload)
    return tuple(dict.fromkeys(modules))
