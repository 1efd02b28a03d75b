"""Runs at a place, on real clusters: products, cancellation, stops, killed clients, requests, secrets."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from tests.recipe_command import (
    TINY_RECIPE,
    file_digests,
    product_path,
    run_command,
    start_command,
    wait_until,
)
from tests.runtime.cluster.engines import TestCluster
from tests.runtime.cluster.programs import PROBE, WAITING, starts, write_recipe

from posttrain.cli.compile import compile_file
from posttrain.runtime.execution.run_plan import RunOptions, run_plan
from posttrain.runtime.store.home import Home
from posttrain.spec.place import SlurmPlace

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
ON = ("--on", "cluster")


def states(home: Path) -> dict[str, str]:
    status = run_command("status", "--home", home, "--format", "json")
    return {step["id"]: step["state"] for step in json.loads(status.stdout)["steps"]}


def test_products_equal_those_of_a_local_run_and_are_shared(cluster: TestCluster, tmp_path: Path) -> None:
    """The first part runs on the cluster, the rest here with its products, and the other way round."""
    cluster.declare(tmp_path / "places.yaml", keep_alive_seconds=5)
    first, second = tmp_path / "first", tmp_path / "second"
    for home, here, there in ((first, "before", "sft"), (second, "sft", "before")):
        options = {here: (), there: ON}
        for stage in ("sft", "before"):
            done = run_command("run", TINY_RECIPE, "--home", home, "--until", stage, *options[stage])
            assert done.returncode == 0, done.stdout + done.stderr
        assert "cached" in done.stdout
    for step in ("models.base", "datasets.sums", "sft", "before"):
        assert file_digests(product_path(first, step)) == file_digests(product_path(second, step)), step


def test_a_step_outlives_its_client_and_is_not_run_twice(cluster: TestCluster, tmp_path: Path) -> None:
    recipe, home = write_recipe(tmp_path / "waits", work=WAITING), tmp_path / "home"
    client = start_command("run", recipe, "--home", home, *ON, log=tmp_path / "log")
    wait_until(lambda: starts(recipe) == 1, "the beginning of the step", client)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    assert len(cluster.live_jobs()) == 1
    two = [start_command("run", recipe, "--home", home, *ON, log=tmp_path / f"log-{n}") for n in range(2)]
    wait_until(
        lambda: any("started" in (tmp_path / f"log-{n}").read_text() for n in range(2)), "a new client"
    )
    assert len(cluster.live_jobs()) == 1
    (recipe / "go").touch()
    assert [each.wait(timeout=120) for each in two] == [0, 0]
    assert starts(recipe) == 1


def test_the_end_of_an_unwatched_step_is_taken(cluster: TestCluster, tmp_path: Path) -> None:
    recipe, home = write_recipe(tmp_path / "waits", work=WAITING), tmp_path / "home"
    client = start_command("run", recipe, "--home", home, *ON, log=tmp_path / "log")
    wait_until(lambda: starts(recipe) == 1, "the beginning of the step", client)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    (recipe / "go").touch()
    assert cluster.wait_until_empty(20) == []
    again = run_command("run", recipe, "--home", home, *ON)
    assert again.returncode == 0, again.stdout + again.stderr
    assert starts(recipe) == 1


def test_a_job_that_somebody_cancels_is_reported_and_runs_again(cluster: TestCluster, tmp_path: Path) -> None:
    recipe, home = write_recipe(tmp_path / "waits", work=WAITING), tmp_path / "home"
    client = start_command("run", recipe, "--home", home, *ON, log=tmp_path / "log")
    wait_until(lambda: starts(recipe) == 1, "the beginning of the step", client)
    (job,) = cluster.live_jobs()
    cluster.cancel(job.id)
    assert client.wait(timeout=60) == 1
    text = (tmp_path / "log").read_text()
    assert job.id in text
    assert "not by this run" in text
    (recipe / "go").touch()
    again = run_command("run", recipe, "--home", home, *ON)
    assert again.returncode == 0, again.stdout + again.stderr
    assert starts(recipe) == 2


def test_a_stop_keeps_a_checkpoint_from_which_the_next_run_resumes(
    cluster: TestCluster, tmp_path: Path
) -> None:
    home, options = tmp_path / "home", ("--set", "stages.sft.params.max_steps=600", "--until", "sft")
    client = start_command("run", TINY_RECIPE, "--home", home, *options, *ON, log=tmp_path / "log")
    wait_until(lambda: any((home / "work").glob("*/checkpoints/*/complete.json")), "a checkpoint", client)
    client.send_signal(signal.SIGINT)
    assert client.wait(timeout=90) == 130, (tmp_path / "log").read_text()
    assert cluster.wait_until_empty(20) == []
    assert states(home)["sft"] == "interrupted"
    plan = run_command("plan", TINY_RECIPE, "--home", home, *options)
    assert "resumes from step" in plan.stdout


def test_an_infeasible_request_is_reported_before_the_run(cluster: TestCluster, tmp_path: Path) -> None:
    cluster.declare(tmp_path / "places.yaml", cpus=64)
    recipe = write_recipe(tmp_path / "probe", work=PROBE)
    began = time.monotonic()
    done = run_command("run", recipe, "--home", tmp_path / "home", *ON)
    seconds = time.monotonic() - began
    assert done.returncode == 1
    assert "`work`" in done.stderr + done.stdout
    assert "configuration is not available" in done.stderr or "no node of the Ray cluster" in done.stderr
    assert not (tmp_path / "home" / "runs").exists()
    assert seconds < 60  # perf/clusters.md has the time of an idle machine


def test_a_job_gets_secrets_and_no_other_variable_of_the_client(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBE_NAMED", "a secret")
    monkeypatch.setenv("PROBE_OTHER", "another")
    recipe, home = write_recipe(tmp_path / "probe", work=PROBE), Home(tmp_path / "home")
    plan = compile_file(recipe / "recipe.yaml", (), ())[0].plan
    assert plan is not None
    step = plan.steps[0].model_copy(update={"secrets": ("PROBE_NAMED",)})
    place = cluster_place(cluster)
    ended = run_plan(
        plan.model_copy(update={"steps": (step,)}),
        home,
        RunOptions(recipe=recipe / "recipe.yaml", place=place),
    )
    assert ended.states == {"work": "done"}
    found = json.loads((product_path(home.root, "work") / "found.json").read_text())
    assert [name for name in found if name.startswith(("PROBE_", "SLURM_", "RAY_"))] == ["PROBE_NAMED"]
    assert not any(b"a secret" in path.read_bytes() for path in home.root.rglob("*") if path.is_file())


def cluster_place(cluster: TestCluster) -> SlurmPlace:
    from posttrain.compiler.parsing.places_file import parse_places
    from posttrain.compiler.text.compile_request import SourceFile

    text = json.dumps({"cluster": cluster.declaration}).encode()
    return parse_places(SourceFile("places.yaml", text)).places["cluster"]


def test_a_python_that_is_missing_on_the_node_is_named(cluster: TestCluster, tmp_path: Path) -> None:
    cluster.declare(tmp_path / "places.yaml", python="/nonexistent/python")
    recipe = write_recipe(tmp_path / "probe", work=PROBE)
    done = run_command("run", recipe, "--home", tmp_path / "home", *ON)
    assert done.returncode == 1
    assert "/nonexistent/python" in done.stdout + done.stderr


def test_small_steps_share_a_node_that_is_kept_alive(cluster: TestCluster, tmp_path: Path) -> None:
    """One job runs all of them, and ends by itself when no step came for some time."""
    cluster.declare(tmp_path / "places.yaml", keep_alive_seconds=3, max_nodes=1)
    recipe = write_recipe(tmp_path / "probe", **{f"work{n}": PROBE for n in range(4)})
    done = run_command("run", recipe, "--home", tmp_path / "home", *ON)
    assert done.returncode == 0, done.stdout + done.stderr
    (pool,) = (tmp_path / "home" / "nodes").iterdir()
    assert len({job.id for job in cluster.live_jobs()}) == 1
    assert cluster.wait_until_empty(20) == []
    assert list((pool / "offers").iterdir()) == []
    assert list((pool / "busy").iterdir()) == []
