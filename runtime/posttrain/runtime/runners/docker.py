"""Runs steps in containers.

A container outlives its client. Its name is made of the home and the step's key: the next client
finds it by that and watches it further, and no two clients can start it twice.
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

EXTENSION = Runner(name="docker", summary="A container of a Docker engine.")
_KILLED = -9
_POLL_SECONDS = 0.2  # between two looks at a container
_RESULT_FILES = "receipt.json", "failure.json", "oom.json"


@dataclass
class ContainerHandle:
    """A step in a container, or on its way into one."""

    work: Path
    step: Step
    # The GPUs that it was given; any when none is named.
    gpus: tuple[str, ...] = ()
    # Pulls, creates and starts, so that a long pull holds nothing else up.
    starting: Thread | None = None
    cancelled: Event = field(default_factory=Event)
    stop_requested: bool = False
    last_poll: float = 0.0
    # Since when the engine has not answered.
    unreachable_since: float | None = None
    status: int | None = None

    @property
    def container_name(self) -> str:
        return docker_container.container_name(self.work)


class DockerRunner:
    """Starts containers, watches them and stops them."""

    def __init__(self, *, patience: float = 15.0) -> None:
        self._patience = patience
        self._engine: DockerClient | None = None
        self._pulling = Lock()
        self._run = ""
        # The memory of the machine that the recipe is written for, where it says so.
        self._machine_gb: float | None = None

    def prepare(self, plan: Plan, ids: Sequence[str], folder: Path) -> None:
        """Remove the containers that no step of this run will use."""
        self._run = folder.name
        self._machine_gb = plan.target.get("memory_gb")
        home = Home(folder.parent.parent)
        expected = {
            docker_container.container_name(home.workdir(step.key)) for step in plan.steps if step.id in ids
        }
        try:
            docker_container.remove_stale_containers(self._get_client(), home, expected)
        except StepError:
            return  # the first step that needs the engine says so

    def attach(self, work: Path, step: Step) -> ContainerHandle | None:
        """The step's container, if an earlier client has left one that runs or has a result."""
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
            pass  # there is none, or no engine: the start says so
        return None

    def start(
        self,
        work: Path,
        step: Step,
        secrets: Mapping[str, str],
        lock: int,
        gpus: tuple[str, ...] | None = None,
    ) -> ContainerHandle:
        """Start the step that `work` describes. The lock stays with the client: the container's name
        takes its place."""
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

    def stop(self, handle: ContainerHandle, *, now: bool = False) -> None:
        """Ask the step to keep what it has and end; with `now`, end it and leave nothing of it."""
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
        """Pull the image if it is not here, then create and start the container."""
        status = FAILED
        try:
            engine = connect()  # its own: a client serves one thread
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
        with self._pulling:  # of steps that want the same image, one pulls it
            return ensure_image(
                engine,
                handle.step.image,
                lambda done, total: events.progress(done, total, "MB of the image"),
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
            gone = StepError(
                "the step's container was removed while it ran", "run again: it goes on", retriable=True
            )
            exit_status.write_failure(handle.work, gone)
            handle.status = _KILLED
        except Exception as error:
            if not (is_unreachable(error) or isinstance(error, StepError)):
                raise
            self._handle_engine_loss(handle, now)

    def _handle_engine_loss(self, handle: ContainerHandle, now: float) -> None:
        """An engine that restarts comes back, often with its containers: some patience is due."""
        handle.unreachable_since = handle.unreachable_since or now
        self.close()
        if now - handle.unreachable_since < self._patience:
            return
        error = StepError(
            f"the Docker engine at {engine_address()} is gone; the container {handle.container_name} may"
            " still run",
            "start the engine and run again: what still runs is watched further, what was ended goes on",
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
            if error.status_code != 409:  # it ended by itself in this moment
                raise
