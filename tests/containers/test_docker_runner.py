"""Steps in containers of a Docker engine, with an image pulled by digest from a registry."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.containers.container_runs import (
    compile_plan,
    foreign_owners,
    replace_step,
    run_plan,
    write_script_recipe,
)
from tests.recipe_command import ROOT, file_digests, product_path, run_command, start_command, wait_until

from posttrain.runtime.machine import total_memory_gb
from posttrain.runtime.store.home import Home

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

pytestmark = [pytest.mark.docker, pytest.mark.slow]
GIB = 1 << 30


@pytest.fixture
def home(tmp_path: Path, docker_engine: "DockerClient") -> Iterator[Path]:
    """A home, with a check that no container remains."""
    folder = tmp_path / "home"
    yield folder
    left = containers(docker_engine, folder)
    for container in left:
        container.remove(force=True)
    assert [c.name for c in left] == []


def containers(engine: "DockerClient", home: Path) -> "list[Container]":
    return engine.containers.list(all=True, filters={"label": f"posttrain.home={home}"})


# The quickstart with fewer rows and steps. Its gate only warns, since the model does not learn to add.
QUICKSTART = ROOT / "recipes" / "quickstart"
SMALL = (
    *("--set", "datasets.sums.from.arithmetic.count=1000"),
    *("--set", "datasets.sums.steps=[{split: {test: 100}}]"),
    *("--set", "stages.sft.params.epochs=1"),
    *("--set", "stages.grpo.params.max_steps=4"),
    *("--set", "stages.ship.on_fail=warn", "--set", "stages.ship.on_inconclusive=warn"),
)


def quickstart(folder: Path, image: str) -> Path:
    """A copy of the quickstart that runs in containers."""
    shutil.copytree(QUICKSTART, folder, ignore=shutil.ignore_patterns(".recipe"))
    with (folder / "recipe.yaml").open("a") as recipe:
        recipe.write(f'container: {{image: "{image}"}}\n')
    return folder


# Records every start in a file, and exits when the file `go` exists.
WAITING_PROGRAM = """\
import os, pathlib, time
here = pathlib.Path(os.environ["OUT"]).parent / "scratch"
with (here / "begun").open("a") as file:
    file.write("begun\\n")
while not (here / "go").exists():
    time.sleep(0.05)
pathlib.Path(os.environ["OUT"], "begun").write_text((here / "begun").read_text())
"""


def scratch(home: Path) -> Path | None:
    return next(iter((home / "work").glob("*/scratch")), None)


def has_started(home: Path) -> bool:
    folder = scratch(home)
    return folder is not None and (folder / "begun").exists()


def release_step(home: Path) -> None:
    folder = scratch(home)
    assert folder is not None
    (folder / "go").touch()


def test_the_quickstart_has_the_products_of_a_local_run(
    stack_image: str, home: Path, tmp_path: Path, docker_engine: "DockerClient"
) -> None:
    """Every step runs in a separate container without a network, from an image pulled by digest."""
    recipe, local = quickstart(tmp_path / "quickstart", stack_image), tmp_path / "local"
    contained = run_command("run", recipe, "--home", home, *SMALL)
    assert contained.returncode == 0, contained.stdout + contained.stderr
    assert run_command("run", QUICKSTART, "--home", local, *SMALL).returncode == 0
    status = run_command("status", "--home", home, "--format", "json")
    states = {step["id"]: step["state"] for step in json.loads(status.stdout)["steps"]}
    assert set(states.values()) == {"done"}
    for step in states:
        assert file_digests(product_path(home, step)) == file_digests(product_path(local, step)), step
    plan = json.loads(run_command("plan", recipe, "--home", home, "--format", "json", *SMALL).stdout)
    assert {step["image"] for step in plan["steps"]} == {stack_image}
    assert not any(step["resources"]["network"] for step in plan["steps"])
    assert foreign_owners(home) == set()


PYTHON_STEP = """\
def without_nine(row):
    return None if row["prompt"].startswith("9") else row
"""


def test_programs_of_a_recipe_have_the_products_of_a_local_run(
    stack_image: str, home: Path, tmp_path: Path
) -> None:
    """A script makes a model of two models, and a Python function maps rows."""
    recipe, local = tmp_path / "merge", tmp_path / "local"
    shutil.copytree(ROOT / "recipes" / "model-merge", recipe, ignore=shutil.ignore_patterns(".recipe"))
    (recipe / "rows.py").write_text(PYTHON_STEP)
    text = (recipe / "recipe.yaml").read_text()
    columns = "{prompt: text, completion: text, answer: text}"
    step = f"      - python: {{call: rows.py:without_nine, columns: {columns}}}\n      - split:"
    text = text.replace("      - split:", step).replace("max_steps: 40", "max_steps: 4")
    (recipe / "recipe.yaml").write_text(text)
    few = ("--set", "stages.ship.on_fail=warn", "--set", "stages.ship.on_inconclusive=warn")
    alone = run_command("run", recipe, "--home", local, *few)
    assert alone.returncode == 0, alone.stdout + alone.stderr
    with (recipe / "recipe.yaml").open("a") as file:
        file.write(f'container: {{image: "{stack_image}"}}\n')
    contained = run_command("run", recipe, "--home", home, *few)
    assert contained.returncode == 0, contained.stdout + contained.stderr
    for made in ("datasets.sums", "merged", "export"):
        assert file_digests(product_path(home, made)) == file_digests(product_path(local, made)), made


PROBE_PROGRAM = """\
import json, os, pathlib, socket
found = {}
out = pathlib.Path(os.environ["OUT"])
for name, path in {"root": "/probe", "store": str(out.parents[2] / "store" / "probe"),
                   "beside": str(out.parents[1] / "probe"), "home": os.environ["HOME"] + "/probe",
                   "work": str(out.parent / "probe")}.items():
    try:
        pathlib.Path(path).write_text("here")
        found[name] = "written"
    except OSError as error:
        found[name] = error.strerror
try:
    socket.create_connection((ADDRESS), 5).close()
    found["network"] = "reached"
except OSError:
    found["network"] = "unreached"
found["interfaces"] = [name for _, name in socket.if_nameindex()]
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
found["rights"] = int(status["CapEff"], 16)
found["new rights"] = status["NoNewPrivs"].strip()
found["user"] = [os.getuid(), os.getgid()]
found["secrets"] = sorted(name for name in os.environ if name.startswith("PROBE_"))
(out / "found.json").write_text(json.dumps(found))
"""


@pytest.mark.parametrize("network", [False, True])
def test_a_step_sees_and_may_no_more_than_it_needs(
    network: bool,
    stack_image: str,
    registry: str,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PROBE_NAMED", "a secret")
    monkeypatch.setenv("PROBE_OTHER", "another")
    host, _, port = registry.rpartition(":")
    recipe = write_script_recipe(
        tmp_path / "probe",
        stack_image,
        PROBE_PROGRAM.replace("ADDRESS", f'"{host}", {port}'),
        network=network,
    )
    ended = run_plan(replace_step(compile_plan(recipe), secrets=("PROBE_NAMED",)), recipe, Home(home))
    assert ended.states == {"work": "done"}, ended.state_changes
    found = json.loads((product_path(home, "work") / "found.json").read_text())
    assert found["root"] == found["store"] == "Read-only file system"
    # The container mounts its own /tmp. A home below /tmp is inside it, so other files there do not persist.
    assert not (home / "work" / "probe").exists()
    assert found["home"] == found["work"] == "written"
    assert found["rights"] == 0
    assert found["new rights"] == "1"
    assert found["user"] == [os.getuid(), os.getgid()]
    assert found["secrets"] == ["PROBE_NAMED"]
    assert not foreign_owners(home)
    if network:
        assert set(found["interfaces"]) > {"lo"}
    else:
        assert found["network"] == "unreached"
        assert "eth0" not in found["interfaces"]
    assert not any(b"a secret" in path.read_bytes() for path in home.rglob("*") if path.is_file())


def test_a_container_outlives_its_client_and_is_not_run_twice(
    stack_image: str, home: Path, tmp_path: Path, docker_engine: "DockerClient"
) -> None:
    recipe = write_script_recipe(tmp_path / "waits", stack_image, WAITING_PROGRAM)
    client = start_command("run", recipe, "--home", home, log=tmp_path / "log")
    wait_until(lambda: has_started(home), "the beginning of the step", client)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    (left,) = containers(docker_engine, home)
    assert left.status == "running"

    two = [start_command("run", recipe, "--home", home, log=tmp_path / f"log-{n}") for n in range(2)]
    logs = [tmp_path / "log-0", tmp_path / "log-1"]
    wait_until(lambda: any("started" in log.read_text() for log in logs), "a client that goes on")
    (same,) = containers(docker_engine, home)
    assert same.id == left.id
    release_step(home)
    assert [c.wait(timeout=120) for c in two] == [0, 0]
    assert (product_path(home, "work") / "begun").read_text() == "begun\n"


def test_what_ended_while_nobody_watched_is_taken(
    stack_image: str, home: Path, tmp_path: Path, docker_engine: "DockerClient"
) -> None:
    recipe = write_script_recipe(tmp_path / "waits", stack_image, WAITING_PROGRAM)
    client = start_command("run", recipe, "--home", home, log=tmp_path / "log")
    wait_until(lambda: has_started(home), "the beginning of the step", client)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    release_step(home)
    (left,) = containers(docker_engine, home)
    left.wait(timeout=60)
    again = run_command("run", recipe, "--home", home)
    assert again.returncode == 0, again.stdout + again.stderr
    assert (product_path(home, "work") / "begun").read_text() == "begun\n"


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_container_that_is_killed_fails_or_is_tried_again(
    attempts: int, stack_image: str, home: Path, tmp_path: Path, docker_engine: "DockerClient"
) -> None:
    recipe = write_script_recipe(tmp_path / "waits", stack_image, WAITING_PROGRAM, attempts=attempts)
    client = start_command("run", recipe, "--home", home, log=tmp_path / "log")
    wait_until(lambda: has_started(home), "the beginning of the step", client)
    let_go_later = scratch(home)
    assert let_go_later is not None
    (container,) = containers(docker_engine, home)
    container.kill()
    (let_go_later / "go").touch()
    status = client.wait(timeout=120)
    log = (tmp_path / "log").read_text()
    assert "killed (signal 9)" in log
    assert status == (1 if attempts == 1 else 0), log


def test_an_interrupt_leaves_no_container(
    stack_image: str, home: Path, tmp_path: Path, docker_engine: "DockerClient"
) -> None:
    recipe = write_script_recipe(tmp_path / "waits", stack_image, WAITING_PROGRAM)
    client = start_command("run", recipe, "--home", home, log=tmp_path / "log")
    wait_until(lambda: has_started(home), "the beginning of the step", client)
    before = (tmp_path / "log").read_text()
    os.kill(client.pid, signal.SIGINT)
    wait_until(lambda: (tmp_path / "log").read_text() != before, "a word about the interrupt", client)
    os.kill(client.pid, signal.SIGINT)
    assert client.wait(timeout=60) == 130
    assert containers(docker_engine, home) == []


MEMORY_PROGRAM = """\
kept = []
while True:
    kept.append(bytearray(1 << 20))
"""
FORKED_MEMORY_PROGRAM = f"""\
import subprocess, sys
sys.exit(subprocess.call([sys.executable, "-c", {MEMORY_PROGRAM!r}]) and 3)
"""


@pytest.mark.parametrize(
    ("program", "more"),
    [
        (MEMORY_PROGRAM, "    memory_gb: 0.25\n"),
        (FORKED_MEMORY_PROGRAM, "    memory_gb: 0.25\n"),
        (MEMORY_PROGRAM, "hardware: {memory_gb: 0.25}\n"),
    ],
)
def test_memory_that_runs_out_is_named(
    program: str, more: str, stack_image: str, home: Path, tmp_path: Path
) -> None:
    recipe = write_script_recipe(tmp_path / "hoards", stack_image, program, more=more)
    plan = compile_plan(recipe)
    (step,) = plan.steps
    plan = plan.model_copy(update={"steps": (step.model_copy(update={"estimate": {"memory_gb": 0.125}}),)})
    ended = run_plan(plan, recipe, Home(home))
    assert ended.states == {"work": "failed"}
    failure = ended.failure("work")
    assert failure["reason"] == ("out of memory: work used its limit of 0.25 GB; the plan estimated 0.125 GB")
    assert "raise memory_gb" in failure["advice"]


LIMITS_PROGRAM = """\
import json, os, pathlib
def size(folder):
    found = os.statvfs(folder)
    return found.f_blocks * found.f_frsize
paths = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
limit = next(pathlib.Path(path).read_text() for path in paths if os.path.exists(path))
found = {"memory": int(limit), "tmp": size("/tmp"), "shm": size("/dev/shm")}
pathlib.Path(os.environ["OUT"], "found.json").write_text(json.dumps(found))
"""


@pytest.mark.parametrize("declared", [None, 2])
def test_a_container_has_limits(declared: float | None, stack_image: str, home: Path, tmp_path: Path) -> None:
    more = "" if declared is None else f"    memory_gb: {declared}\n"
    recipe = write_script_recipe(tmp_path / "limits", stack_image, LIMITS_PROGRAM, more=more)
    ended = run_plan(compile_plan(recipe), recipe, Home(home))
    assert ended.states == {"work": "done"}, ended.state_changes
    found = json.loads((product_path(home, "work") / "found.json").read_text())
    machine = total_memory_gb() * GIB
    memory = found["memory"] if declared is None else declared * GIB
    assert found["memory"] == memory
    assert machine / 2 < memory < machine or declared
    assert abs(found["tmp"] - memory // 4) < 2**20
    assert abs(found["shm"] - min(memory // 2, 8 * GIB)) < 2**20


def test_a_home_can_be_a_relative_path(stack_image: str, home: Path, tmp_path: Path) -> None:
    recipe = write_script_recipe(tmp_path / "relative", stack_image, "print('hello')\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run_command("run", "../relative", "--home", "../home", cwd=elsewhere)
    assert done.returncode == 0, done.stdout + done.stderr
    again = run_command("run", recipe, "--home", "elsewhere/../home", cwd=tmp_path)
    assert (again.returncode, "cached" in again.stdout) == (0, True), again.stdout
    (run, _) = sorted((home / "runs").iterdir())
    assert ".." not in (run / "plan.json").read_text()


def test_an_image_that_the_registry_does_not_have(
    docker_engine: "DockerClient", registry: str, home: Path, tmp_path: Path
) -> None:
    image = f"{registry}/posttrain-test-stack@sha256:{'0' * 64}"
    recipe = write_script_recipe(tmp_path / "missing", image, WAITING_PROGRAM)
    ended = run_plan(compile_plan(recipe), recipe, Home(home))
    failure = ended.failure("work")
    assert f"the image {image} is not on this machine, and the pull failed" in failure["reason"]
    assert "check the name and the digest" in failure["advice"]


def test_a_registry_that_is_down(docker_engine: "DockerClient", home: Path, tmp_path: Path) -> None:
    recipe = write_script_recipe(
        tmp_path / "down", f"127.0.0.1:1/posttrain@sha256:{'0' * 64}", WAITING_PROGRAM
    )
    failure = run_plan(compile_plan(recipe), recipe, Home(home)).failure("work")
    assert "the pull failed" in failure["reason"]
    assert "check the connection to the registry" in failure["advice"]


def test_an_image_without_posttrain(busybox_image: str, registry: str, home: Path, tmp_path: Path) -> None:
    name = f"{registry}/posttrain-test-busybox"
    for command in (("tag", busybox_image, name), ("push", "-q", name)):
        subprocess.run(["docker", *command], check=True, capture_output=True)
    asked = ["docker", "image", "inspect", "--format", '{{join .RepoDigests "\\n"}}', name]
    digest = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()[0]
    recipe = write_script_recipe(tmp_path / "empty", digest, WAITING_PROGRAM)
    failure = run_plan(compile_plan(recipe), recipe, Home(home)).failure("work")
    assert "the image has no `python` with posttrain" in failure["reason"]
    assert "recipe image check" in failure["advice"]


def test_cards_that_the_engine_cannot_give(stack_image: str, home: Path, tmp_path: Path) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a card")
    recipe = write_script_recipe(tmp_path / "cards", stack_image, WAITING_PROGRAM)
    ended = run_plan(replace_step(compile_plan(recipe), gpus=1), recipe, Home(home), cards=("0",))
    failure = ended.failure("work")
    assert "cannot pass GPUs to containers" in failure["reason"]
    assert "NVIDIA Container Toolkit" in failure["advice"]


def test_no_engine_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    recipe = write_script_recipe(tmp_path / "none", f"posttrain@sha256:{'0' * 64}", WAITING_PROGRAM)
    failure = run_plan(compile_plan(recipe), recipe, Home(tmp_path / "home")).failure("work")
    assert f"cannot connect to the Docker engine at unix://{tmp_path}/nobody.sock" in failure["reason"]
    assert "DOCKER_HOST" in failure["advice"]
