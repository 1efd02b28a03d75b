"""The sandboxes in a container like those of steps: without namespaces, Landlock isolates programs."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.runtime.sandbox.sandbox_runs import make_world_readable

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.docker]

ROOT = Path(__file__).parents[3]
CONTAINER_PROGRAM = """
import json, sys
sys.path[:0] = sys.argv[1:]
from posttrain.runtime.errors import StepError
from posttrain.runtime.sandbox.sandbox_selection import select_sandbox
from posttrain.runtime.sandbox.job import Job
from posttrain.runtime.sandbox.languages import load_language
from posttrain.runtime.sandbox.limits import Limits
from posttrain.runtime.sandbox.process_runner import run
PROGRAMS = {
    "fine": "print(6 * 7)",
    "forks": "import os; os.fork()",
    "kills": "import os; os.kill(os.getppid(), 9)",
    "reads": "print(open('/inside/secret').read())",
    "reaches": "import socket; socket.create_connection(('127.0.0.1', 80))",
    "hoards": "bytearray(1 << 40)",
    "spins": "while True: pass",
}
found = {}
for kind in ("namespaces", "landlock"):
    try:
        sandbox = select_sandbox(kind)
    except StepError as error:
        found[kind] = [str(error), error.advice]
        continue
    limits = Limits(seconds=10, cpu_seconds=1)
    python = load_language("python")
    jobs = {n: Job(language=python, program=p.encode(), limits=limits) for n, p in PROGRAMS.items()}
    ended = {name: run(sandbox, job) for name, job in jobs.items()}
    found[kind] = {name: [one.outcome, one.status, one.output.decode()] for name, one in ended.items()}
print(json.dumps(found))
"""


def run_in_container(
    engine: "DockerClient", image: str, folder: Path, user: str, **options: Any
) -> dict[str, Any]:
    """Run the probe program in a container with the options of the runner and this machine's Python."""
    from docker.types import Mount

    (folder / "inside.py").write_text(CONTAINER_PROGRAM)
    (folder / "secret").write_text("not for programs")
    make_world_readable(folder)
    places = ["/usr", "/lib", "/lib64", sys.base_prefix, str(ROOT / "runtime"), str(ROOT / "spec")]
    mounts = [
        Mount(place, str(Path(place).resolve()), type="bind", read_only=True)
        for place in places
        if Path(place).is_dir()
    ]
    container = engine.containers.create(
        image=image,
        entrypoint=[getattr(sys, "_base_executable", sys.executable), "/inside/inside.py"],
        command=[str(ROOT / "runtime"), str(ROOT / "spec")],
        user=user,
        network_mode="none",
        mounts=[*mounts, Mount("/inside", str(folder), type="bind", read_only=True)],
        read_only=True,
        tmpfs={"/tmp": "rw,exec,nosuid,nodev"},
        cap_drop=["ALL"],
        init=True,
        **{"security_opt": ["no-new-privileges:true"], **options},
    )
    try:
        container.start()
        status = container.wait(timeout=120)["StatusCode"]
        logs = container.logs(stdout=True, stderr=True).decode()
    finally:
        container.remove(force=True)
    assert status == 0, logs
    return json.loads(logs.strip().splitlines()[-1])


CONTAINED = {
    "fine": ["exited", 0, "42\n"],
    "forks": ["exited", 159, ""],
    "reaches": ["exited", 159, ""],
    "hoards": ["exited", 92, ""],
    "reads": ["exited", 1, ""],
    "spins": ["exited", 152, ""],
}


@pytest.mark.parametrize("user", ["0:0", "54321:54321"])
def test_landlock_holds_where_namespaces_are_not_allowed(
    user: str, docker_engine: "DockerClient", busybox_image: str, tmp_path: Path
):
    found = run_in_container(docker_engine, busybox_image, tmp_path, user)
    message, advice = found["namespaces"]
    assert "the sandbox `namespaces` does not work on this machine: bwrap: " in message
    assert "sandbox: landlock" in advice
    assert found["landlock"] == {**CONTAINED, "kills": ["exited", 159, ""]}


def test_namespaces_hold_where_the_engine_allows_them(
    docker_engine: "DockerClient", busybox_image: str, tmp_path: Path
):
    options = ["no-new-privileges:true", "seccomp=unconfined"]
    found = run_in_container(docker_engine, busybox_image, tmp_path, "54321:54321", security_opt=options)
    # Its parent is the first process of the sandbox, which ignores the signal.
    assert found["namespaces"] == {**CONTAINED, "kills": ["exited", 0, ""]}
