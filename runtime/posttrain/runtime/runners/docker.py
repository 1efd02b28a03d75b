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

from posttrain.runtime.events import EventWriter
from posttrain.runtime.faults import FAILED, STOPPED, Interrupted, StepFault
from posttrain.runtime.keeping.home import Home
from posttrain.runtime.runners import docker_container, docker_ending
from posttrain.runtime.runners.docker_engine import address, connect, silent, told_plainly
from posttrain.runtime.runners.docker_images import fetched
from posttrain.spec.extension import Runner
from posttrain.spec.plan import Plan, Step

if TYPE_CHECKING:
    from docker import DockerClient

EXTENSION = Runner(name="docker", summary="A container of a Docker engine.")
_KILLED = -9
_PAUSE = 0.2  # between two looks at a container
_CHANGED = "receipt.json", "failure.json", "starved.json"


@dataclass
class Contained:
    """A step in a container, or on its way into one."""

    work: Path
    step: Step
    # The GPUs that it was given; any when none is named.
    gpus: tuple[str, ...] = ()
    # Pulls, creates and starts, so that a long pull holds nothing else up.
    starting: Thread | None = None
    given_up: Event = field(default_factory=Event)
    asked: bool = False
    looked: float = 0.0
    # Since when the engine has not answered.
    silent_since: float | None = None
    status: int | None = None

    @property
    def name(self) -> str:
        return docker_container.name_of(self.work)


class DockerRunner:
    """Starts containers, watches them and stops them."""

    def __init__(self, *, patience: float = 15.0) -> None:
        self._patience = patience
        self._engine: DockerClient | None = None
        self._pulling = Lock()
        self._run = ""
        # The memory of the machine that the recipe is written for, where it says so.
        self._machine_gb: float | None = None

    def expect(self, plan: Plan, ids: Sequence[str], folder: Path) -> None:
        """Told which steps will run, clear away what nobody will come back to."""
        self._run = folder.name
        self._machine_gb = plan.target.get("memory_gb")
        home = Home(folder.parent.parent)
        wanted = {docker_container.name_of(home.work(step.key)) for step in plan.steps if step.id in ids}
        try:
            docker_container.sweep(self._connected(), home, wanted)
        except StepFault:
            return  # the first step that needs the engine says so

    def attach(self, work: Path, step: Step) -> Contained | None:
        """The step's container, if an earlier client has left one that runs or has a result."""
        try:
            with told_plainly():
                container = self._connected().containers.get(docker_container.name_of(work))
                state = container.attrs["State"]
                if state["Status"] in ("running", "paused", "restarting"):
                    return Contained(work, step)
                if state["Status"] == "exited" and docker_ending.worth_taking(state, work):
                    return Contained(work, step)
                container.remove(force=True)
        except StepFault:
            pass  # there is none, or no engine: the start says so
        return None

    def start(
        self,
        work: Path,
        step: Step,
        secrets: Mapping[str, str],
        lock: int,
        gpus: tuple[str, ...] | None = None,
    ) -> Contained:
        """Start the step that `work` describes. The lock stays with the client: the container's name
        takes its place."""
        for name in _CHANGED:
            (work / name).unlink(missing_ok=True)
        handle = Contained(work, step, gpus or ())
        handle.starting = Thread(target=self._bring_up, args=(handle, dict(secrets)), daemon=True)
        handle.starting.start()
        return handle

    def poll(self, handle: Contained) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        if handle.status is not None or (handle.starting and handle.starting.is_alive()):
            return handle.status
        now = time.monotonic()
        if now - handle.looked >= _PAUSE:
            handle.looked = now
            self._look(handle, now)
        return handle.status

    def stop(self, handle: Contained, *, now: bool = False) -> None:
        """Ask the step to keep what it has and end; with `now`, end it and leave nothing of it."""
        handle.given_up.set()
        if handle.starting and handle.starting.is_alive():
            if not now:
                return
            handle.starting.join(self._patience)
        if self.poll(handle) is not None or (handle.asked and not now):
            return
        handle.asked = True
        try:
            self._end(handle, now)
        except Exception as error:
            if not silent(error):
                raise
        if now:
            handle.status = _KILLED

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _connected(self) -> "DockerClient":
        if self._engine is None:
            self._engine = connect()
        return self._engine

    def _bring_up(self, handle: Contained, secrets: Mapping[str, str]) -> None:
        """Pull the image if it is not here, then create and start the container."""
        status = FAILED
        try:
            engine = connect()  # its own: a client serves one thread
            image = self._image(engine, handle)
            if handle.given_up.is_set():
                raise Interrupted("stopped before the container was started")
            with told_plainly():
                about = handle.work, handle.step, secrets, self._run, handle.gpus, self._machine_gb
                docker_container.launch(engine, docker_container.options(engine, image, *about))
            return
        except Interrupted:
            status = STOPPED
        except StepFault as fault:
            docker_ending.note(handle.work, fault)
        except BaseException:
            handle.status = FAILED
            raise
        handle.status = status

    def _image(self, engine: "DockerClient", handle: Contained) -> str:
        events = EventWriter(handle.work / "record" / "events.jsonl")
        assert handle.step.image is not None, "a step in a container names an image"
        with self._pulling:  # of steps that want the same image, one pulls it
            return fetched(
                engine,
                handle.step.image,
                lambda done, total: events.progress(done, total, "MB of the image"),
                handle.given_up,
            )

    def _look(self, handle: Contained, now: float) -> None:
        from docker.errors import NotFound

        try:
            container = self._connected().containers.get(handle.name)
            handle.silent_since = None
            state = container.attrs["State"]
            if state["Status"] in ("exited", "dead"):
                docker_ending.keep_output(container, state, handle.work)
                status = docker_ending.status_of(
                    state, handle.work, handle.step, docker_container.limit_gb(container)
                )
                container.remove(force=True)
                handle.status = status
        except NotFound:
            gone = StepFault(
                "the step's container was removed while it ran", "run again: it goes on", retriable=True
            )
            docker_ending.note(handle.work, gone)
            handle.status = _KILLED
        except Exception as error:
            if not (silent(error) or isinstance(error, StepFault)):
                raise
            self._wait_for_the_engine(handle, now)

    def _wait_for_the_engine(self, handle: Contained, now: float) -> None:
        """An engine that restarts comes back, often with its containers: some patience is due."""
        handle.silent_since = handle.silent_since or now
        self.close()
        if now - handle.silent_since < self._patience:
            return
        fault = StepFault(
            f"the Docker engine at {address()} is gone; the container {handle.name} may still run",
            "start the engine and run again: what still runs is watched further, what was ended goes on",
        )
        docker_ending.note(handle.work, fault)
        handle.status = FAILED

    def _end(self, handle: Contained, now: bool) -> None:
        from docker.errors import APIError, NotFound

        try:
            container = self._connected().containers.get(handle.name)
            if now:
                container.remove(force=True)
            else:
                container.kill(signal="SIGTERM")
        except NotFound:
            return
        except APIError as error:
            if error.status_code != 409:  # it ended by itself in this moment
                raise
