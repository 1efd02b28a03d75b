"""The real clusters of the tests: their places, and what a person can do to their jobs."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime.runners.cluster.ray_scheduler import RayScheduler
from posttrain.runtime.runners.cluster.scheduler import JobState, Scheduler
from posttrain.runtime.runners.cluster.slurm_scheduler import SlurmScheduler
from posttrain.spec.place import RayPlace, SlurmPlace

SLURM_HOW = "set POSTTRAIN_TEST_SLURM to a slurm.conf, or run `bash .ci/run`, which starts its own"
RAY_HOW = "set POSTTRAIN_TEST_RAY to HOST:PORT, or run `bash .ci/run`, which starts its own"


@dataclass
class TestCluster:
    """A cluster with a connection of the test's own."""

    __test__ = False

    engine: str
    declaration: dict[str, Any]
    scheduler: Scheduler

    def declare(self, file: Path, **options: Any) -> None:
        """Write a file with one place, `cluster`."""
        file.write_text(json.dumps({"cluster": {**self.declaration, **options}}))

    def live_jobs(self) -> list[JobState]:
        return [
            job for job in self.scheduler.jobs() if job.phase != "over" and job.name.startswith("posttrain")
        ]

    def cancel(self, job: str) -> None:
        """What another user of the cluster does: no part of the runner knows of it."""
        if self.engine == "slurm":
            subprocess.run(["scancel", job], check=True)
        else:
            self.scheduler.kill(job)

    def wait_until_empty(self, seconds: float) -> list[JobState]:
        deadline = time.monotonic() + seconds
        while (left := self.live_jobs()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return left


def slurm_cluster() -> TestCluster | None:
    """The cluster of $POSTTRAIN_TEST_SLURM, if it answers."""
    configuration = os.environ.get("POSTTRAIN_TEST_SLURM")
    if not configuration:
        return None
    os.environ["SLURM_CONF"] = configuration
    declaration = {"engine": "slurm", "partition": "all", "memory_gb": 1.0, "python": sys.executable}
    scheduler = SlurmScheduler(SlurmPlace.model_validate(declaration))
    return TestCluster("slurm", declaration, scheduler) if scheduler.nodes() else None


def ray_cluster() -> TestCluster | None:
    """The cluster of $POSTTRAIN_TEST_RAY, if it answers. Its token is in $RAY_AUTH_TOKEN_PATH."""
    address = os.environ.get("POSTTRAIN_TEST_RAY")
    if not address:
        return None
    declaration = {"engine": "ray", "address": address, "memory_gb": 1.0, "python": sys.executable}
    scheduler = RayScheduler(RayPlace.model_validate(declaration))
    return TestCluster("ray", declaration, scheduler) if scheduler.nodes() else None
