"""Chooses where each step runs: in a container when the plan names an image, else as a process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from posttrain.runtime.runners.docker import DockerRunner
from posttrain.runtime.runners.process import ProcessRunner
from posttrain.spec.plan import Plan, Step


class OneRunner(Protocol):
    """What a runner can do. A handle means something to the runner that gave it, and to nobody else."""

    def expect(self, plan: Plan, ids: Sequence[str], folder: Path) -> None: ...

    def attach(self, work: Path, step: Step) -> Any: ...

    def start(self, work: Path, step: Step, secrets: Mapping[str, str], lock: int) -> Any: ...

    def poll(self, handle: Any) -> int | None: ...

    def stop(self, handle: Any, *, now: bool = False) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Handle:
    """A step under way, with the runner that it runs under."""

    runner: OneRunner
    inner: Any


class Runners:
    """All runners, each for the steps that are its own."""

    def __init__(self, process: OneRunner | None = None, docker: OneRunner | None = None) -> None:
        self._by_place: dict[str, OneRunner] = {
            "process": process or ProcessRunner(),
            "docker": docker or DockerRunner(),
        }

    def expect(self, plan: Plan, ids: Sequence[str], folder: Path) -> None:
        for place, runner in self._by_place.items():
            mine = [step.id for step in plan.steps if _place(step) == place and step.id in ids]
            if mine:
                runner.expect(plan, mine, folder)

    def attach(self, work: Path, step: Step) -> Handle | None:
        """The step as an earlier client left it, if it outlived that one."""
        runner = self._by_place[_place(step)]
        found = runner.attach(work, step)
        return None if found is None else Handle(runner, found)

    def start(self, work: Path, step: Step, secrets: Mapping[str, str], lock: int) -> Handle:
        runner = self._by_place[_place(step)]
        return Handle(runner, runner.start(work, step, secrets, lock))

    def poll(self, handle: Handle) -> int | None:
        return handle.runner.poll(handle.inner)

    def stop(self, handle: Handle, *, now: bool = False) -> None:
        handle.runner.stop(handle.inner, now=now)

    def close(self) -> None:
        for runner in self._by_place.values():
            runner.close()


def _place(step: Step) -> str:
    return "docker" if step.image else "process"
