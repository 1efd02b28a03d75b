"""The first stage of containers/Dockerfile.cuda builds on a plain Debian image: what its build needs besides
the 5 GB of CUDA packages."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import require_service
from tests.container_output import output_of
from tests.recipe_command import ROOT

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.docker, pytest.mark.slow]
BASE, STAGE = "posttrain-test-debian:latest", "posttrain-test-cuda-compiler:latest"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
# Of the machine that builds, so that an index behind a proxy or a mirror is reached.
_PASSED = ("UV_DEFAULT_INDEX", "PIP_INDEX_URL")


@pytest.fixture(scope="module")
def compiler_stage(docker_engine: "DockerClient", tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of an image of the stage `compiler`."""
    _import_debian(docker_engine, tmp_path_factory.mktemp("debian") / "base.tar")
    arguments = {f"{name}={BASE}" for name in ("DEVEL", "RUNTIME")} | {f"SSL_CERT_FILE={CERTIFICATES}"}
    arguments |= {f"{name}={os.environ[name]}" for name in _PASSED if name in os.environ}
    options = [word for argument in sorted(arguments) for word in ("--build-arg", argument)]
    command = [ROOT / "containers" / "build", "cuda", STAGE, "--target", "compiler", "--network", "host"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    yield STAGE
    for name in (STAGE, BASE):
        docker_engine.images.remove(name, force=True)


def _import_debian(engine: "DockerClient", archive: Path) -> None:
    """Import an image of this machine's distribution with apt and without CUDA."""
    program = require_service("mmdebstrap", shutil.which("mmdebstrap"), "apt-get install mmdebstrap")
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    command = [program, "--quiet", "--variant=apt", "--include=ca-certificates"]
    command += ["--dpkgopt=force-unsafe-io", "--dpkgopt=path-exclude=/usr/share/doc/*"]
    command += [f"--customize-hook=copy-in {CERTIFICATES} {Path(CERTIFICATES).parent}"]
    command += ["--format=tar", suite, str(archive)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    how = f"mmdebstrap needs root and a mirror of the distribution: {done.stderr[-500:]}"
    require_service(f"an image of {suite}", None if done.returncode else archive, how)
    engine.api.import_image(str(archive), repository=BASE.partition(":")[0], tag="latest")
    archive.unlink()


def test_the_stage_compiles_and_installs(docker_engine: "DockerClient", compiler_stage: str) -> None:
    header = (
        "import pathlib, sysconfig; assert pathlib.Path(sysconfig.get_path('include'), 'Python.h').exists()"
    )
    program = (
        "echo 'int main() { return 0; }' >a.cpp; g++ a.cpp -o a.out; ./a.out; ninja --version;"
        f'/opt/posttrain/bin/python -c "{header}"; tools/bin/python -c "import hatchling";'
        "tools/bin/uv --version"
    )
    assert "uv 0." in output_of(docker_engine, compiler_stage, ["bash", "-euc", program])


def test_the_lock_is_split_at_deepspeed(docker_engine: "DockerClient", compiler_stage: str) -> None:
    """DeepSpeed's build requires torch, so it is installed after the others. Nothing is lost between them."""
    apart = output_of(docker_engine, compiler_stage, ["cat", "deepspeed.txt"])
    others = output_of(docker_engine, compiler_stage, ["cat", "others.txt"])
    assert re.findall(r"^[\w.-]+(?===)", apart, re.MULTILINE) == ["deepspeed"]
    assert "--hash=sha256:" in apart
    lock = (ROOT / "requirements" / "cuda.txt").read_text().splitlines()
    kept = [line for line in lock if not line.startswith("#")]
    assert sorted([*apart.splitlines(), *others.splitlines()]) == sorted(kept)
