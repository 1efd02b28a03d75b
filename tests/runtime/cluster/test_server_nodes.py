"""A vLLM server on a node of its own: found by the training, and its end is named.

vLLM cannot run here: a stand-in answers in place of its command, and nothing is generated. The step only
uses the server as a training does.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.recipe_command import wait_until
from tests.runtime.cluster.engines import TestCluster
from tests.runtime.cluster.node_trainings import LocalNodes, home_without_product, write_training
from tests.runtime.cluster.server_step import (
    assert_found_on_another_node,
    prepare_step,
    run_step,
    server_step,
    write_site,
)

from posttrain.cli.place_option import find_place
from posttrain.runtime.process_tree import descendants
from posttrain.runtime.runners.cluster.cluster_runner import ClusterRunner
from posttrain.runtime.runners.cluster.engines import create_scheduler

pytestmark = pytest.mark.slow


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return write_site(tmp_path / "site")


@pytest.fixture
def nodes(local: Path, tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalNodes]:
    """Two nodes without an engine, the second with the server."""
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # nothing listens: the server needs no proxy
    recipe = write_training(tmp_path / "recipe", nodes=2)
    found = LocalNodes(recipe, home_without_product(local, tmp_path))
    found.step = server_step(recipe)
    yield found
    found.end()


@pytest.mark.parametrize("processes", [1, 2])
def test_a_training_uses_a_server_on_another_node(nodes: LocalNodes, processes: int) -> None:
    nodes.step = server_step(nodes.recipe, processes=processes)
    files = nodes.start()
    assert nodes.wait(files) == 0, nodes.failure()
    seen = json.loads((nodes.work / "files" / "seen.json").read_text())
    assert_found_on_another_node(seen, processes=processes)
    assert [program.wait(timeout=60) for program in nodes.programs] == [0, 0]
    server = Path("/proc") / str(seen[0]["pid"])
    wait_until(lambda: not server.exists(), "the end of the server", seconds=30)


@pytest.mark.parametrize("what", ["server", "node"])
def test_the_end_of_the_server_is_named(nodes: LocalNodes, site: Path, what: str) -> None:
    (site / "stay").touch()
    files = nodes.start()
    wait_until((nodes.work / "files" / "seen.json").exists, "the use of the server")
    if what == "server":
        os.kill(json.loads((nodes.work / "files" / "seen.json").read_text())[0]["pid"], signal.SIGKILL)
        expected = "the vLLM server was killed by signal 9, on node n2"
    else:
        program = nodes.programs[1].pid
        for pid in (program, *descendants(program)):
            os.kill(pid, signal.SIGKILL)
        expected = "node n2 is lost"
    assert nodes.wait(files, seconds=60) == 1
    assert nodes.failure()["message"].startswith(expected)
    assert nodes.failure()["retriable"]
    assert nodes.programs[0].wait(timeout=30) == 0


@pytest.mark.cluster
def test_a_training_uses_a_server_on_another_node_of_a_cluster(
    cluster: TestCluster, local: Path, tmp_path: Path, site: Path
) -> None:
    cluster.declare(tmp_path / "places.yaml", environment={"PYTHONPATH": str(site)})
    recipe = write_training(tmp_path / "recipe", nodes=2)
    step = server_step(recipe)
    work = prepare_step(home_without_product(local, tmp_path), recipe, step)
    place = find_place("cluster")
    runner = ClusterRunner(place, create_scheduler(place))
    try:
        status = run_step(runner, work, step)
    finally:
        runner.close()
    assert status == 0, (work / "failure.json").read_text()
    seen = json.loads((work / "files" / "seen.json").read_text())
    assert_found_on_another_node(seen, processes=2)
