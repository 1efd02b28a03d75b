"""Ray through a process that imports it (`ray_bridge.py`). A job is a detached actor."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.runners.cluster.job_request import JobRequest
from posttrain.runtime.runners.cluster.scheduler import JobSpec, JobState, SchedulerError
from posttrain.spec.extension import Runner
from posttrain.spec.place import RayPlace

EXTENSION = Runner(name="ray", summary="An actor of a Ray cluster.")
_BRIDGE = "posttrain.runtime.runners.cluster.ray_bridge"
_START_SECONDS, _CALL_SECONDS = 120.0, 30.0
_PASSED = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")
_RESUMES = "run again: the step resumes from its last checkpoint"
_GIB = 1 << 30


class RayScheduler:
    """Submits jobs and reads which of them exist."""

    name = "Ray"

    def __init__(self, place: RayPlace) -> None:
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None
        self._calling = threading.Lock()
        self._ready = False
        self._buffer = b""

    def open(self) -> None:
        """Start the process; the first call waits until it is connected."""
        if self._process is not None:
            return
        variables = {name: os.environ[name] for name in _PASSED if name in os.environ}
        variables |= {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", _BRIDGE, self._place.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=variables,
            start_new_session=True,  # Ctrl-C is for the client
        )

    def submit(self, job: JobSpec, lock: int | None = None) -> str:
        job.output.parent.mkdir(parents=True, exist_ok=True)
        environment = {**self._place.environment, "POSTTRAIN_CLUSTER_OUTPUT": str(job.output)}
        described = {
            "name": job.name,
            "command": list(job.command),
            "environment": environment,
            "options": self._options(job.request),
            "node": job.node,
            "nodes": job.request.nodes,
            "bundle": self._required(job.request),
            "excluded": list(job.excluded),
        }
        return self._call({"call": "submit", "job": described})

    def jobs(self) -> Sequence[JobState]:
        names: list[str] = self._call({"call": "jobs"})
        return [JobState(id=name, name=name.partition(".")[0], phase="running") for name in names]

    def nodes(self) -> Sequence[str]:
        return [node["name"] for node in self._call({"call": "nodes"})]

    def rejection(self, job: JobSpec) -> str | None:
        required = self._required(job.request)
        nodes = [
            node["resources"] for node in self._call({"call": "nodes"}) if node["name"] not in job.excluded
        ]
        able = [
            node for node in nodes if all(node.get(name, 0) >= amount for name, amount in required.items())
        ]
        if len(able) >= job.request.nodes:
            return None
        if able:
            return f"{job.request.nodes} nodes are required, but {len(able)} have what the step requires"
        wanted = ", ".join(f"{name} {_amount(name, amount)}" for name, amount in required.items())
        lacking = [
            name for name, amount in required.items() if all(node.get(name, 0) < amount for node in nodes)
        ]
        most = ", ".join(
            f"{name} {_amount(name, max((node.get(name, 0) for node in nodes), default=0))}"
            for name in lacking
        )
        return f"no node of the Ray cluster at {self._place.address} has {wanted}" + (
            f" (at most {most})" if most else ""
        )

    def cancel_pending(self, id: str) -> None:
        """An actor that waits and one that runs look alike. It ends by itself when its pool has no step."""

    def terminate(self, id: str) -> None:
        with contextlib.suppress(SchedulerError):  # it has just ended
            self._call({"call": "terminate", "id": id})

    def kill(self, id: str) -> None:
        with contextlib.suppress(SchedulerError):
            self._call({"call": "kill", "id": id})

    def explain_end(self, job: JobState, *, terminated: bool = False) -> StepError:
        return StepError(
            f"the actor {job.id} of the step ended without a result: it was killed, not by this run, or"
            f" its node failed",
            _RESUMES,
            retriable=True,
        )

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None, "both are pipes"
            pipe.close()
        try:
            process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _required(self, request: JobRequest) -> dict[str, float]:
        """The resources under the names of Ray."""
        found: dict[str, float] = {"CPU": request.cpus}
        if request.gpus:
            found["GPU"] = request.gpus
        if request.gpus and self._place.gpu_type:
            found[f"accelerator_type:{self._place.gpu_type}"] = 0.001
        if request.memory_gb is not None:
            found["memory"] = int(request.memory_gb * _GIB)
        return found | dict(self._place.resources)

    def _options(self, request: JobRequest) -> dict[str, Any]:
        required = self._required(request)
        own = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
        options: dict[str, Any] = {own[name]: required[name] for name in own if name in required}
        return options | {"resources": {name: value for name, value in required.items() if name not in own}}

    def _call(self, request: Mapping[str, Any]) -> Any:
        with self._calling:
            self.open()
            assert self._process is not None, "it was started"
            assert self._process.stdin is not None, "its input is a pipe"
            if not self._ready:
                self._result(self._read(_START_SECONDS))
                self._ready = True
            try:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
            except OSError:
                raise self._lost() from None
            return self._result(self._read(_CALL_SECONDS))

    def _result(self, reply: Mapping[str, Any]) -> Any:
        if "error" not in reply:
            return reply["result"]
        text = str(reply["error"]).strip().splitlines()[0]
        if "No module named 'ray'" in text:
            raise SchedulerError(f"{sys.executable} has no Ray", "install it: pip install 'posttrain[ray]'")
        raise SchedulerError(
            f"Ray at {self._place.address}: {text}",
            "see `ray status`, and `address` of the place",
            retriable=reply["retriable"],
        )

    def _read(self, seconds: float) -> Mapping[str, Any]:
        assert self._process is not None, "it was started"
        assert self._process.stdout is not None, "its output is a pipe"
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise SchedulerError(
                        f"Ray at {self._place.address} does not answer", "see `ray status`", retriable=True
                    )
                chunk = os.read(self._process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise self._lost()
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def _lost(self) -> SchedulerError:
        """The connection ended. The next call makes a new one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process, self._ready, self._buffer = None, False, b""
        return SchedulerError(
            f"lost the connection to Ray at {self._place.address}", "run again", retriable=True
        )


def _amount(name: str, amount: float) -> str:
    return f"{amount / _GIB:.1f} GB" if name == "memory" else f"{amount:g}"
