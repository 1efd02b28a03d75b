"""Builds the jobs of steps: names, commands and requests."""

import sys
from pathlib import Path

from posttrain.runtime.runners.cluster.job_request import step_request
from posttrain.runtime.runners.cluster.scheduler import JobSpec
from posttrain.runtime.store.home import Home
from posttrain.spec.keys import digest
from posttrain.spec.place import Place
from posttrain.spec.plan import Step
from posttrain.spec.record import record

NODE_PROGRAM = "posttrain.runtime.runners.cluster.node_program"
MULTI_NODE_PROGRAM = "posttrain.runtime.runners.cluster.multi_node_program"


def home_for(work: Path) -> Home:
    return Home(work.parent.parent)


def job_name(work: Path) -> str:
    """A unique name for a step of a home, by which every client finds its job."""
    return f"posttrain-{digest([str(home_for(work).root), work.name])[:32]}"


def output_file(work: Path) -> Path:
    """What the job of a step prints before the log of the step is open."""
    return work / "job-output"


@record
class JobSpecs:
    """The jobs of one place."""

    place: Place

    def pool_name(self, step: Step) -> str | None:
        """The pool of a step: equal requests of equal places share nodes. None gives it a job of its own."""
        if not self.place.keep_alive_seconds or step.image is not None or step.launch.all_nodes > 1:
            return None
        request = step_request(step, self.place)
        return digest([self.place.model_dump(mode="json"), request.cpus, request.memory_gb, request.gpus])[
            :16
        ]

    def step_job(self, work: Path, step: Step) -> JobSpec:
        """The job of one step."""
        program = [NODE_PROGRAM, "step"] if step.launch.all_nodes == 1 else [MULTI_NODE_PROGRAM]
        return JobSpec(
            name=job_name(work),
            command=[*self._python(step), "-m", *program, str(work)],
            request=step_request(step, self.place),
            output=output_file(work),
            image=step.image,
            writable=(str(work),),
            read_only=(str(home_for(work).store.root),),
        )

    def pool_job(self, work: Path, pool: str, step: Step) -> JobSpec:
        """A job that takes the steps of a pool in turn."""
        home = home_for(work)
        folder = home.node_pools / pool
        seconds = f"{self.place.keep_alive_seconds:g}"
        return JobSpec(
            name=f"posttrain-pool-{digest([str(home.root), pool])[:27]}",
            command=[*self._python(step), "-m", NODE_PROGRAM, "serve", str(folder), seconds],
            request=step_request(step, self.place),
            output=folder / "output",
        )

    def _python(self, step: Step) -> list[str]:
        """The interpreter; in an image, its own."""
        return ["python"] if step.image is not None else [self.place.python or sys.executable]
