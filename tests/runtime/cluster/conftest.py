"""Fixtures for real clusters."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import require_service
from tests.recipe_command import TINY_RECIPE, run_command
from tests.runtime.cluster.engines import RAY_HOW, SLURM_HOW, TestCluster, ray_cluster, slurm_cluster
from tests.runtime.cluster.node_trainings import write_training


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the product of a training in two processes on this machine."""
    folder = tmp_path_factory.mktemp("local")
    recipe = write_training(folder / "recipe", nodes=1)
    done = run_command("run", recipe, "--home", folder / "home")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "home"


@pytest.fixture(scope="session")
def slurm() -> TestCluster:
    return require_service("a Slurm cluster", slurm_cluster(), SLURM_HOW)


@pytest.fixture(scope="session")
def ray() -> Iterator[TestCluster]:
    found = require_service("a Ray cluster", ray_cluster(), RAY_HOW)
    yield found
    found.scheduler.close()


@pytest.fixture(scope="session")
def local_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the tiny recipe on this machine until its first eval. Tests copy it."""
    home = tmp_path_factory.mktemp("local") / "home"
    done = run_command("run", TINY_RECIPE, "--home", home, "--until", "before")
    assert done.returncode == 0, done.stdout + done.stderr
    return home


@pytest.fixture(params=["slurm", "ray"])
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TestCluster]:
    """Each engine, with a place `cluster`; no job remains after the test."""
    found: TestCluster = request.getfixturevalue(request.param)
    monkeypatch.setenv("RECIPE_PLACES", str(tmp_path / "places.yaml"))
    found.declare(tmp_path / "places.yaml")
    yield found
    left = found.wait_until_empty(20)
    for job in left:
        found.scheduler.kill(job.id)
    assert [job.name for job in left] == []
