"""Fixtures for real clusters."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import require_service
from tests.runtime.cluster.engines import RAY_HOW, SLURM_HOW, TestCluster, ray_cluster, slurm_cluster


@pytest.fixture(scope="session")
def slurm() -> TestCluster:
    return require_service("a Slurm cluster", slurm_cluster(), SLURM_HOW)


@pytest.fixture(scope="session")
def ray() -> Iterator[TestCluster]:
    found = require_service("a Ray cluster", ray_cluster(), RAY_HOW)
    yield found
    found.scheduler.close()


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
