"""Runs at a place, on real clusters: products, cancellation, stops, killed clients, requests, secrets."""

import json
import os
import shutil
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
from tests.runtime.cluster.programs import GPU_PROBE, PROBE, WAITING, starts, write_recipe

from posttrain.cli.compile import compile_file
from posttrain.runtime.execution.run_errors import PreflightFailed
from posttrain.runtime.execution.run_plan import RunOptions, RunResult, run_plan
from posttrain.runtime.store.home import Home
from posttrain.spec.place import Place
from posttrain.spec.plan import Resources

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
ON = ("--on", "cluster")


def states(home: Path) -> dict[str, str]:
    status = run_command("status", "--home", home, "--format", "json")
    return {step["id"]: step["state"] for step in json.loads(status.stdout)["steps"]}


def test_products_equal_those_of_a_local_run_and_are_shared(
    cluster: TestCluster, tmp_path: Path, local_home: Path
) -> None:
    cluster.declare(tmp_path / "places.yaml", keep_alive_seconds=5)
    there = tmp_path / "there"
    done = run_command("run", TINY_RECIPE, "--home", there, "--until", "before", *ON)
    assert done.returncode == 0, done.stdout + done.stderr
    for step in ("models.base", "datasets.sums", "sft", "before"):
        assert file_digests(product_path(there, step)) == file_digests(product_path(local_home, step)), step
    here = copy_home(local_home, tmp_path / "here")
    for home, place in ((there, ()), (here, ON)):
        again = run_command("run", TINY_RECIPE, "--home", home, "--until", "before", *place)
        assert again.returncode == 0, again.stdout + again.stderr
        assert "nothing to run" in again.stdout


def copy_home(home: Path, target: Path) -> Path:
    return Path(shutil.copytree(home, target, symlinks=True))


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
    cluster: TestCluster, tmp_path: Path, local_home: Path
) -> None:
    """Model and data are cache hits."""
    home, options = (
        copy_home(local_home, tmp_path / "home"),
        ("--set", "stages.sft.params.max_steps=600", "--until", "sft"),
    )
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


def cluster_place(cluster: TestCluster) -> Place:
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
    """One job runs all of them."""
    cluster.declare(tmp_path / "places.yaml", keep_alive_seconds=120, max_nodes=1)
    recipe = write_recipe(tmp_path / "probe", **{f"work{n}": PROBE for n in range(4)})
    done = run_command("run", recipe, "--home", tmp_path / "home", *ON)
    assert done.returncode == 0, done.stdout + done.stderr
    (pool,) = (tmp_path / "home" / "nodes").iterdir()
    (job,) = cluster.live_jobs()
    cluster.cancel(job.id)
    assert cluster.wait_until_empty(20) == []
    assert list((pool / "offers").iterdir()) == []
    assert list((pool / "busy").iterdir()) == []


def test_a_step_in_the_queue_is_shown_and_its_folder_stays(cluster: TestCluster, tmp_path: Path) -> None:
    """The two nodes are full with two steps. The client dies; gc deletes the run, and no folder of a job."""
    cluster.declare(tmp_path / "places.yaml", cpus=4)
    recipe = write_recipe(tmp_path / "waits", **{f"work{n}": WAITING for n in range(3)})
    home, log = tmp_path / "home", tmp_path / "log"
    client = start_command("run", recipe, "--home", home, *ON, log=log)
    wait_until(lambda: starts(recipe) == 2, "the beginning of two steps", client)
    wait_until(lambda: sorted(states(home).values()) == ["queued", "running", "running"], "the queue", client)
    if cluster.engine == "slurm":  # Ray has no reason
        wait_until(lambda: "queued  Slurm: " in log.read_text(), "the reason", client)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    for options in ((), ON):
        deleted = run_command("gc", "--home", home, "--keep-runs", "0", "--yes", *options)
        assert "3 work folders have a job of a cluster" in deleted.stderr
    assert list((home / "runs").iterdir()) == []
    (recipe / "go").touch()
    again = run_command("run", recipe, "--home", home, *ON)
    assert again.returncode == 0, again.stdout + again.stderr
    assert starts(recipe) == 3


def run_with_gpus(cluster: TestCluster, tmp_path: Path, gpus: int) -> tuple[Home, RunResult]:
    recipe, home = write_recipe(tmp_path / "probe", work=GPU_PROBE), Home(tmp_path / "home")
    plan = compile_file(recipe / "recipe.yaml", (), ())[0].plan
    assert plan is not None
    step = plan.steps[0].model_copy(update={"resources": Resources(cpus=1, gpus=gpus)})
    options = RunOptions(recipe=recipe / "recipe.yaml", place=cluster_place(cluster), report=False)
    return home, run_plan(plan.model_copy(update={"steps": (step,)}), home, options)


def test_a_step_sees_as_many_gpus_as_it_requires(cluster: TestCluster, tmp_path: Path) -> None:
    """The GPUs of the nodes are files (Slurm) or numbers (Ray): the engine sets CUDA_VISIBLE_DEVICES."""
    home, ended = run_with_gpus(cluster, tmp_path, 2)
    assert ended.states == {"work": "done"}
    found = json.loads((product_path(home.root, "work") / "found.json").read_text())
    assert found == "0,1"


def test_more_gpus_than_a_node_has_are_reported_before_the_run(cluster: TestCluster, tmp_path: Path) -> None:
    with pytest.raises(PreflightFailed) as raised:
        run_with_gpus(cluster, tmp_path, 5)
    (finding,) = raised.value.findings
    assert "configuration is not available" in finding.cause or "at most GPU 2" in finding.cause


def test_a_path_with_special_characters_is_possible(cluster: TestCluster, tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s "100%j" ü$HOME'
    folder.mkdir()
    recipe = write_recipe(folder / "probe", work=PROBE)
    done = run_command("run", recipe, "--home", folder / "home", *ON)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_check_of_a_place_finds_no_problem(cluster: TestCluster, tmp_path: Path) -> None:
    found = run_command("doctor", *ON, "--home", tmp_path / "home")
    assert found.returncode == 0, found.stdout + found.stderr
    lines = found.stdout.splitlines()
    assert [line for line in lines if not line.startswith("+ ")] == []
    for check in ("engine", "between nodes", "locks", "clocks"):
        assert any(line.startswith(f"+ {check}: ") for line in lines), check
    assert sum(line.startswith("+ stack ") for line in lines) == 2


def test_an_engine_that_is_down_is_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself needs two minutes to find out that nothing listens."""
    monkeypatch.setenv("RECIPE_PLACES", str(tmp_path / "places.yaml"))
    (tmp_path / "places.yaml").write_text('{"cluster": {"engine": "ray", "address": "127.0.0.1:1"}}')
    recipe = write_recipe(tmp_path / "probe", work=PROBE)
    began = time.monotonic()
    done = run_command("run", recipe, "--home", tmp_path / "home", *ON)
    assert done.returncode == 1
    assert "Ray at 127.0.0.1:1: Connection refused" in done.stdout + done.stderr
    assert time.monotonic() - began < 60
