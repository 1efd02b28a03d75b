"""The Docker engine becomes unreachable during a run, and is available for the next run."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import require_service
from tests.containers.container_runs import write_script_recipe
from tests.containers.test_docker_runner import WAITING_PROGRAM, containers, has_started, release_step
from tests.recipe_command import RECIPE_COMMAND, product_path, run_command, wait_until

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.docker, pytest.mark.slow]

# A proxy between one client and the engine, to simulate the loss of the engine.
PROXY_PROGRAM = """\
import socket, sys, threading
def carry(source, target):
    while data := source.recv(1 << 16):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
while True:
    client, _ = listening.accept()
    engine = socket.socket(socket.AF_UNIX)
    engine.connect(sys.argv[2])
    for pair in ((client, engine), (engine, client)):
        threading.Thread(target=carry, args=pair, daemon=True).start()
"""


def engine_socket() -> str:
    kind, _, path = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").partition("://")
    how = "run `bash .ci/run`, which starts one, or set DOCKER_HOST to unix://PATH"
    return require_service(
        "a Docker engine at a socket of this machine", path if kind == "unix" else None, how
    )


def is_engine_up(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def test_an_engine_that_goes_away_is_named_and_the_next_run_goes_on(
    stack_image: str, tmp_path: Path, docker_engine: "DockerClient"
) -> None:
    home = tmp_path / "home"
    recipe = write_script_recipe(tmp_path / "waits", stack_image, WAITING_PROGRAM)
    between = tmp_path / "s"
    carrier = subprocess.Popen([sys.executable, "-c", PROXY_PROGRAM, str(between), engine_socket()])
    try:
        wait_until(lambda: is_engine_up(between), "a way to the engine")
        with (tmp_path / "log").open("wb") as log:
            client = subprocess.Popen(
                [*RECIPE_COMMAND, "run", str(recipe), "--home", str(home)],
                env={**os.environ, "DOCKER_HOST": f"unix://{between}"},
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: has_started(home), "the beginning of the step", client)
    finally:
        carrier.kill()
        carrier.wait()
    assert client.wait(timeout=120) == 1
    output = " ".join((tmp_path / "log").read_text().split())
    assert f"lost the connection to the Docker engine at unix://{between}" in output
    assert "start the engine and run again" in output
    assert [c.status for c in containers(docker_engine, home)] == ["running"]

    release_step(home)
    again = run_command("run", recipe, "--home", home)
    assert again.returncode == 0, again.stdout + again.stderr
    assert (product_path(home, "work") / "begun").read_text() == "begun\n"
    assert containers(docker_engine, home) == []
