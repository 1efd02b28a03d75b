"""Runs steps in Docker containers.

A container outlives its client. Its name is derived from the home and the key of the step, so that the
next client can reattach to it, and two clients cannot start the same step twice.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from posttrain.runtime.errors import FAILED, STOPPED, Interrupted, StepError
from posttrain.runtime.events import EventWriter
from posttrain.runtime.runners import docker_container, exit_status
from posttrain.runtime.runners.docker_engine import (
    connect,
    engine_address,
    is_unreachable,
    translate_engine_errors,
)
from posttrain.runtime.runners.docker_images import ensure_image
from posttrain.runtime.store.home import Home
from posttrain.spec.extension import Runner
from posttrain.spec.plan import Plan, Step

if TYPE_CHECKING:
    from docker import DockerClient

EXTENSION = Runner(name="docker", summary="A container on a Docker engine.")
_KILLED = -9
_POLL_SECONDS = 0.2  # the time between two polls of a container
_RESULT_FILES = "receipt.json", "failure.json", "oom.json"


@dataclass
class ContainerHandle:
    """A step in a container that runs or is starting."""

    work: Path
    step: Step
    # The assigned GPUs; when empty, the engine selects them.
    gpus: tuple[str, ...] = ()
    # Pulls the image, then creates and starts the container, without blocking other steps.
    starting: Thread | None = None
    cancelled: Event = field(default_factory=Event)
    stop_requested: bool = False
    last_poll: float = 0.0
    # When the engine stopped responding.
    unreachable_since: float | None = None
    status: int | None = None

    @property
    def container_name(self) -> str:
        return docker_container.container_name(self.work)


class DockerRunner:
    """Starts, polls and stops containers."""

    def __init__(self, *, patience: float = 15.0) -> None:
        self._patience = patience
        self._engine: DockerClient | None = None
        self._pulling = Lock()
        self._run = ""
        # The memory of the target machine, if the recipe sets it.
        self._machine_gb: float | None = None

    def prepare(self, plan: Plan, ids: Sequence[str], folder: Path) -> None:
        """Remove the stale containers that no step of this run uses."""
        self._run = folder.name
        self._machine_gb = plan.target.get("memory_gb")
        home = Home(folder.parent.parent)
        expected = {
            docker_container.container_name(home.workdir(step.key)) for step in plan.steps if step.id in ids
        }
        try:
            docker_container.remove_stale_containers(self._get_client(), home, expected)
        except StepError:
            return  # the first step that needs the engine reports the error

    def attach(self, work: Path, step: Step) -> ContainerHandle | None:
        """Reattach to the container of an earlier client, if it runs or has a result."""
        try:
            with translate_engine_errors():
                container = self._get_client().containers.get(docker_container.container_name(work))
                state = container.attrs["State"]
                if state["Status"] in ("running", "paused", "restarting"):
                    return ContainerHandle(work, step)
                if state["Status"] == "exited" and exit_status.has_result(state, work):
                    return ContainerHandle(work, step)
                container.remove(force=True)
        except StepError:
            pass  # no container, or no engine: the start reports an error
        return None

    def start(
        self,
        work: Path,
        step: Step,
        secrets: Mapping[str, str],
        lock: int,
        gpus: tuple[str, ...] | None = None,
    ) -> ContainerHandle:
        """Start the step in `work`. The lock stays with the client: inside Docker, the unique container
        name replaces it."""
        for name in _RESULT_FILES:
            (work / name).unlink(missing_ok=True)
        handle = ContainerHandle(work, step, gpus or ())
        handle.starting = Thread(target=self._start_container, args=(handle, dict(secrets)), daemon=True)
        handle.starting.start()
        return handle

    def poll(self, handle: ContainerHandle) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        if handle.status is not None or (handle.starting and handle.starting.is_alive()):
            return handle.status
        now = time.monotonic()
        if now - handle.last_poll >= _POLL_SECONDS:
            handle.last_poll = now
            self._inspect_container(handle, now)
        return handle.status

    def has_no_job(self, work: Path) -> bool:
        """Never certain: another machine can run the step."""
        return False

    def outage(self) -> str | None:
        return None

    def queue_reason(self, handle: ContainerHandle) -> str | None:
        """None: a step runs as soon as it was started."""
        return None

    def stop(self, handle: ContainerHandle, *, now: bool = False) -> None:
        """Request the step to save its state and exit; with `now`, remove its container."""
        handle.cancelled.set()
        if handle.starting and handle.starting.is_alive():
            if not now:
                return
            handle.starting.join(self._patience)
        if self.poll(handle) is not None or (handle.stop_requested and not now):
            return
        handle.stop_requested = True
        try:
            self._stop_container(handle, now)
        except Exception as error:
            if not is_unreachable(error):
                raise
        if now:
            handle.status = _KILLED

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _get_client(self) -> "DockerClient":
        if self._engine is None:
            self._engine = connect()
        return self._engine

    def _start_container(self, handle: ContainerHandle, secrets: Mapping[str, str]) -> None:
        """Pull the image if necessary, then create and start the container."""
        status = FAILED
        try:
            engine = connect()  # a separate client, because a client is not thread-safe
            image = self._ensure_image(engine, handle)
            if handle.cancelled.is_set():
                raise Interrupted("stopped before the container was started")
            with translate_engine_errors():
                about = handle.work, handle.step, secrets, self._run, handle.gpus, self._machine_gb
                docker_container.start_container(
                    engine, docker_container.container_options(engine, image, *about)
                )
            return
        except Interrupted:
            status = STOPPED
        except StepError as error:
            exit_status.write_failure(handle.work, error)
        except BaseException:
            handle.status = FAILED
            raise
        handle.status = status

    def _ensure_image(self, engine: "DockerClient", handle: ContainerHandle) -> str:
        events = EventWriter(handle.work / "record" / "events.jsonl")
        assert handle.step.image is not None, "a step in a container names an image"
        with self._pulling:  # steps with the same image pull it once
            return ensure_image(
                engine,
                handle.step.image,
                lambda done, total: events.progress(done, total, "MB of image"),
                handle.cancelled,
            )

    def _inspect_container(self, handle: ContainerHandle, now: float) -> None:
        from docker.errors import NotFound

        try:
            container = self._get_client().containers.get(handle.container_name)
            handle.unreachable_since = None
            state = container.attrs["State"]
            if state["Status"] in ("exited", "dead"):
                exit_status.append_container_log(container, state, handle.work)
                status = exit_status.process_status(
                    state, handle.work, handle.step, docker_container.memory_limit_gb(container)
                )
                container.remove(force=True)
                handle.status = status
        except NotFound:
            error = StepError(
                "the container of the step was removed while it ran",
                "run again: the step resumes from its last checkpoint",
                retriable=True,
            )
            exit_status.write_failure(handle.work, error)
            handle.status = _KILLED
        except Exception as error:
            if not (is_unreachable(error) or isinstance(error, StepError)):
                raise
            self._handle_engine_loss(handle, now)

    def _handle_engine_loss(self, handle: ContainerHandle, now: float) -> None:
        """Wait for an engine that restarts, then fail the step. Containers often survive a restart."""
        handle.unreachable_since = handle.unreachable_since or now
        self.close()
        if now - handle.unreachable_since < self._patience:
            return
        error = StepError(
            f"lost the connection to the Docker engine at {engine_address()}; the container"
            f" {handle.container_name} may still run",
            "start the engine and run again: posttrain reattaches to running containers, and resumes others",
        )
        exit_status.write_failure(handle.work, error)
        handle.status = FAILED

    def _stop_container(self, handle: ContainerHandle, now: bool) -> None:
        from docker.errors import APIError, NotFound

        try:
            container = self._get_client().containers.get(handle.container_name)
            if now:
                container.remove(force=True)
            else:
                container.kill(signal="SIGTERM")
        except NotFound:
            return
        except APIError as error:
            if error.status_code != 409:  # conflict: the container has just exited
                raise
