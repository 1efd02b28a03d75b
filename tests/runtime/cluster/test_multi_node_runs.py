"""Training on two nodes of real clusters."""

import os
import signal
from pathlib import Path

import pytest
from tests.recipe_command import run_command, start_command, wait_until
from tests.runtime.cluster.engines import TestCluster
from tests.runtime.cluster.node_trainings import (
    home_without_product,
    last_rank,
    trained_files,
    write_training,
)

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
ON = ("--on", "cluster")


def test_a_killed_rank_is_named_and_the_weights_are_those_of_one_machine(
    cluster: TestCluster, local: Path, tmp_path: Path
) -> None:
    """The same run continues from the last checkpoint."""
    home = home_without_product(local, tmp_path).root
    recipe = write_training(tmp_path / "recipe", nodes=2)
    client = start_command("run", recipe, "--home", home, *ON, log=tmp_path / "log")
    wait_until(lambda: any(home.glob("work/*/checkpoints/*/complete.json")), "a checkpoint", client)
    os.kill(last_rank(home), signal.SIGKILL)
    assert client.wait(timeout=240) == 0, (tmp_path / "log").read_text()
    log = (tmp_path / "log").read_text()
    assert "process 1 of 2 was killed by signal 9" in log
    # A name of the engine, which the next job can exclude.
    assert any(f"on node {name}" in log for name in cluster.scheduler.nodes())
    assert trained_files(home, nodes=2) == trained_files(local, nodes=1)
    assert cluster.wait_until_empty(20) == []


def test_more_nodes_than_the_cluster_has_are_rejected(cluster: TestCluster, tmp_path: Path) -> None:
    recipe = write_training(tmp_path / "recipe", nodes=2)
    text = (recipe / "recipe.yaml").read_text()
    many = text.replace('"nodes": 2', '"nodes": 8').replace('"num_processes": 2', '"num_processes": 8')
    (recipe / "recipe.yaml").write_text(many)
    done = run_command("run", recipe, "--home", tmp_path / "home", *ON)
    assert done.returncode == 1
    assert "`it`" in done.stdout + done.stderr
    assert not (tmp_path / "home" / "runs").exists()
