"""Chooses where each step runs: in a container when the plan names an image, else as a process."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from posttrain.spec.plan import Plan, Step
from posttrain.spec.record import record


class StepRunner(Protocol):
    """What a runner can do. A handle means something to the runner that gave it, and to nobody else."""

    def prepare(self, plan: Plan, ids: Sequence[str], folder: Path) -> None: ...

    def attach(self, work: Path, step: Step) -> Any: ...

    def start(
        self,
        work: Path,
        step: Step,
        secrets: Mapping[str, str],
        lock: int,
        gpus: tuple[str, ...] | None = None,
    ) -> Any: ...

    def poll(self, handle: Any) -> int | None: ...

    def stop(self, handle: Any, *, now: bool = False) -> None: ...

    def close(self) -> None: ...


@record
class StepHandle:
    """A step under way, with the runner that it runs under."""

    runner: StepRunner
    inner: Any


class RunnerDispatch:
    """All runners, each for the steps that are its own; one that has no step is not even imported."""

    def __init__(self, process: StepRunner | None = None, docker: StepRunner | None = None) -> None:
        runners = {"process": process, "docker": docker}
        self._by_name = {name: runner for name, runner in runners.items() if runner is not None}

    def prepare(self, plan: Plan, ids: Sequence[str], folder: Path) -> None:
        selected = set(ids)
        ids_by_runner: dict[str, list[str]] = {}
        for step in plan.steps:
            if step.id in selected:
                ids_by_runner.setdefault(_runner_name(step), []).append(step.id)
        for name, ids in ids_by_runner.items():
            self._runner_for(name).prepare(plan, ids, folder)

    def attach(self, work: Path, step: Step) -> StepHandle | None:
        """The step as an earlier client left it, if it outlived that one."""
        runner = self._runner_for(_runner_name(step))
        found = runner.attach(work, step)
        return None if found is None else StepHandle(runner, found)

    def start(
        self,
        work: Path,
        step: Step,
        secrets: Mapping[str, str],
        lock: int,
        gpus: tuple[str, ...] | None = None,
    ) -> StepHandle:
        """Start a step. It sees the GPUs named, by what CUDA_VISIBLE_DEVICES takes; all if None."""
        runner = self._runner_for(_runner_name(step))
        return StepHandle(runner, runner.start(work, step, secrets, lock, gpus))

    def poll(self, handle: StepHandle) -> int | None:
        return handle.runner.poll(handle.inner)

    def stop(self, handle: StepHandle, *, now: bool = False) -> None:
        handle.runner.stop(handle.inner, now=now)

    def close(self) -> None:
        for runner in self._by_name.values():
            runner.close()

    def _runner_for(self, name: str) -> StepRunner:
        if name not in self._by_name:
            self._by_name[name] = _create_runner(name)
        return self._by_name[name]


def _create_runner(name: str) -> StepRunner:
    if name == "docker":
        from posttrain.runtime.runners.docker import DockerRunner

        return DockerRunner()
    from posttrain.runtime.runners.process import ProcessRunner

    return ProcessRunner()


def _runner_name(step: Step) -> str:
    return "docker" if step.image else "process"
