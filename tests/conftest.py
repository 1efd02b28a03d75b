"""The real parts that some tests talk to: an engine, a registry, a browser, a sandbox.

A part that is missing skips the tests that need it and says how to get it; where
POSTTRAIN_REQUIRE_ALL is set, as in .ci/run, it fails them instead.
"""

import io
import json
import os
import shutil
import tarfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from docker import DockerClient

Service = TypeVar("Service")


def require_service(part: str, found: Service | None, how: str, *, apart: bool = False) -> Service:
    """What was found; else skip, or fail where everything is required.

    A part is `apart` when its libraries cannot stand beside the locked ones: `make apart` tests it in an
    environment of its own, and requires it there.
    """
    if found is not None:
        return found
    message = f"{part} is missing: {how}"
    if os.environ.get("POSTTRAIN_TEST_APART" if apart else "POSTTRAIN_REQUIRE_ALL"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def docker_engine() -> "DockerClient":
    """A client of a live engine: DOCKER_HOST's, or this machine's."""
    how = "start one, set DOCKER_HOST to one, or run `bash .ci/run`, which starts its own"
    return require_service("a Docker engine", connect_docker(), how)


def connect_docker() -> "DockerClient | None":
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(timeout=600)  # to remove a large image takes a while
        client.ping()
    except DockerException:
        return None
    return client


@pytest.fixture(scope="session")
def registry() -> str:
    """HOST:PORT of a registry that holds nothing of value."""
    address = os.environ.get("POSTTRAIN_TEST_REGISTRY", "")
    how = "set POSTTRAIN_TEST_REGISTRY to HOST:PORT, or run `bash .ci/run`, which starts its own"
    return require_service("a registry", address if registry_answers(address) else None, how)


def registry_answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/v2/", timeout=10) as answer:
            return answer.status == 200
    except (OSError, ValueError):
        return False


@pytest.fixture(scope="session")
def chromium() -> Path:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    return require_service("Chromium", found and Path(found), "apt-get install chromium")


@pytest.fixture(scope="session")
def bubblewrap() -> Path:
    found = shutil.which("bwrap")
    return require_service("bubblewrap", found and Path(found), "apt-get install bubblewrap")


@pytest.fixture(scope="session")
def busybox_image(docker_engine: "DockerClient") -> str:
    """The id of an image that holds one static program and nothing else."""
    found = require_service("busybox", shutil.which("busybox"), "apt-get install busybox-static")
    answer = docker_engine.api.import_image_from_data(
        busybox_tar(Path(found)), repository="posttrain-test-busybox", tag="latest"
    )
    return json.loads(answer.splitlines()[-1])["status"]


def busybox_tar(program: Path) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(program.resolve(), "bin/busybox")
    return archive.getvalue()


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist nothing runs side by side
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Side by side (`-n 2`), a file's tests stay in one process, which has what they share; so do all that
    run containers, whose image takes a minute to make."""
    from xdist.scheduler import LoadScopeScheduling

    class ContainerScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return "containers" if path.startswith("tests/containers/") else path

    return ContainerScheduling(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write expected outputs anew, for review")
