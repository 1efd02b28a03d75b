"""Selects the runner of each step: the cluster of the run; else Docker when the plan names an image; else a
process."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from posttrain.spec.plan import Plan, Step
from posttrain.spec.record import record


class StepRunner(Protocol):
    """The interface of a runner. A handle is opaque: only the runner that returned it can use it."""

    def prepare(self, plan: Plan, ids: Sequence[str], folder: Path) -> None: ...

    def attach(self, work: Path, step: Step) -> Any: ...

    def has_no_job(self, work: Path) -> bool:
        """Whether it is certain that no machine runs the step."""
        ...

    def start(
        self,
        work: Path,
        step: Step,
        secrets: Mapping[str, str],
        lock: int,
        gpus: tuple[str, ...] | None = None,
    ) -> Any: ...

    def poll(self, handle: Any) -> int | None: ...

    def queue_reason(self, handle: Any) -> str | None:
        """Why a step that was started waits in a queue, as far as known; None if it runs or has ended."""
        ...

    def outage(self) -> str | None:
        """Why the runner does not know at present whether its steps still run; None if it does."""
        ...

    def stop(self, handle: Any, *, now: bool = False) -> None: ...

    def close(self) -> None: ...


@record
class StepHandle:
    """A running step with its runner."""

    runner: StepRunner
    inner: Any


class RunnerDispatch:
    """Forwards each step to its runner. A runner without steps is not imported."""

    def __init__(
        self,
        process: StepRunner | None = None,
        docker: StepRunner | None = None,
        cluster: StepRunner | None = None,
    ) -> None:
        """With a cluster, all steps run there: the place belongs to the run, the image to the step."""
        runners = {"process": process, "docker": docker, "cluster": cluster}
        self._has_cluster = cluster is not None
        self._by_name = {name: runner for name, runner in runners.items() if runner is not None}

    def prepare(self, plan: Plan, ids: Sequence[str], folder: Path) -> None:
        selected = set(ids)
        ids_by_runner: dict[str, list[str]] = {}
        for step in plan.steps:
            if step.id in selected:
                ids_by_runner.setdefault(self._runner_name(step), []).append(step.id)
        for name, ids in ids_by_runner.items():
            self._runner_for(name).prepare(plan, ids, folder)

    def attach(self, work: Path, step: Step) -> StepHandle | None:
        """Reattach to a step that outlived an earlier client; None when there is none."""
        runner = self._runner_for(self._runner_name(step))
        handle = runner.attach(work, step)
        return None if handle is None else StepHandle(runner, handle)

    def has_no_job(self, work: Path, step: Step) -> bool:
        return self._runner_for(self._runner_name(step)).has_no_job(work)

    def start(
        self,
        work: Path,
        step: Step,
        secrets: Mapping[str, str],
        lock: int,
        gpus: tuple[str, ...] | None = None,
    ) -> StepHandle:
        """Start a step. `gpus` are names for CUDA_VISIBLE_DEVICES; None makes all GPUs visible."""
        runner = self._runner_for(self._runner_name(step))
        return StepHandle(runner, runner.start(work, step, secrets, lock, gpus))

    def poll(self, handle: StepHandle) -> int | None:
        return handle.runner.poll(handle.inner)

    def queue_reason(self, handle: StepHandle) -> str | None:
        return handle.runner.queue_reason(handle.inner)

    def outage(self) -> str | None:
        found = (runner.outage() for runner in self._by_name.values())
        return next((text for text in found if text is not None), None)

    def stop(self, handle: StepHandle, *, now: bool = False) -> None:
        handle.runner.stop(handle.inner, now=now)

    def close(self) -> None:
        for runner in self._by_name.values():
            runner.close()

    def _runner_name(self, step: Step) -> str:
        if self._has_cluster:
            return "cluster"
        return "docker" if step.image else "process"

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
