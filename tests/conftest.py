"""Fixtures for external services: a Docker engine, a registry, a browser, a sandbox.

A missing service skips the tests that need it, with a hint how to install it. With
POSTTRAIN_REQUIRE_ALL, as in .ci/run, the tests fail instead.
"""

import io
import json
import os
import shutil
import signal
import tarfile
import urllib.request
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from docker import DockerClient

Service = TypeVar("Service")
# A slow machine is not a failure.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
# Of torch in the test processes. These occupy the processors already, and waiting threads spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# `nohup` and background jobs of scripts ignore these signals, and every client that a test stops would, too.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


def require_service(part: str, found: Service | None, how: str, *, apart: bool = False) -> Service:
    """Return the service; without one, skip the test, or fail it when all services are required.

    `apart` marks a service whose libraries conflict with the locked ones: `make apart` tests it in a
    separate environment and requires it there.
    """
    if found is not None:
        return found
    message = f"{part} is missing: {how}"
    if os.environ.get("POSTTRAIN_TEST_APART" if apart else "POSTTRAIN_REQUIRE_ALL"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def docker_engine() -> "DockerClient":
    """A client of a running engine: the one at DOCKER_HOST, or the local one."""
    how = "start one, set DOCKER_HOST to one, or run `bash .ci/run`, which starts its own"
    return require_service("a Docker engine", connect_docker(), how)


def connect_docker() -> "DockerClient | None":
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(timeout=600)  # removing a large image takes a while
        client.ping()
    except DockerException:
        return None
    return client


@pytest.fixture(scope="session")
def registry() -> str:
    """HOST:PORT of a disposable registry."""
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
def skopeo() -> Path:
    found = shutil.which("skopeo")
    return require_service("skopeo", found and Path(found), "apt-get install skopeo")


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
    """The id of an image with a single static program."""
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


_SLOW_WEIGHT = 25  # an average test with the marker `slow` takes as long as so many others


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the container tests and the files with much work first: at the end, all processes have work."""
    work = Counter[str]()
    for item in items:
        work[scope_of(item.nodeid)] += _SLOW_WEIGHT if item.get_closest_marker("slow") else 1
    items.sort(key=lambda item: (scope_of(item.nodeid) != "containers", -work[scope_of(item.nodeid)]))


def scope_of(nodeid: str) -> str:
    """The tests of a file run in one process, so that they share fixtures; so do all container tests, whose
    image takes a minute to build."""
    path = nodeid.partition("::")[0]
    return "containers" if path.startswith("tests/containers/") else path


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist there are no parallel tests
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n 2`, the scopes run in the order of the collection."""
    from xdist.scheduler import LoadScopeScheduling

    class ScopeScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    config.option.loadscopereorder = False
    return ScopeScheduling(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="rewrite the expected outputs, for review")
