"""Transfers that are killed at random instants: nothing partial is visible, the next attempt continues.

POSTTRAIN_TEST_KILLS is the number of kills of each transfer, 5 by default.
"""

import math
import os
import random
import shutil
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest
from click.testing import CliRunner
from tests.runtime.scripts_recipe import compile_text

from posttrain.cli.main import main
from posttrain.runtime.artifacts import artifact_cache
from posttrain.runtime.artifacts.packed_artifact import push_artifact
from posttrain.runtime.artifacts.product_artifact import PUBLISHED_RECORDS, pack_product
from posttrain.runtime.artifacts.shared_cache import SharedCache
from posttrain.runtime.execution.run_plan import run_plan
from posttrain.runtime.registry.oci_reference import Reference, parse_reference
from posttrain.runtime.registry.registry_client import RegistryClient
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.verify_findings import VerifyProgress
from posttrain.runtime.store.verify_home import check_home
from posttrain.spec.plan import Plan

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("POSTTRAIN_TEST_KILLS", "5"))
FILES, FILE_BYTES = 4, 3_000_000
RECIPE = f"""\
recipe: 1
name: large
stages:
  made:
    script: [sh, -c, "for n in $(seq {FILES}); do head -c {FILE_BYTES} /dev/urandom > $OUT/$n; done"]
"""


@pytest.fixture(autouse=True)
def user_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    defaults = RegistryClient.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "chunk_bytes", 1 << 20)


@pytest.fixture
def target(registry: str) -> Reference:
    return parse_reference(f"oci://{registry}/test/{uuid.uuid4().hex}")


@pytest.fixture
def made(tmp_path: Path) -> tuple[Plan, Home]:
    """A home with a product of some megabytes."""
    plan, options = compile_text(tmp_path, RECIPE)
    home = Home(tmp_path / "home")
    assert run_plan(plan, home, options).succeeded
    return plan, home


def run_apart(action: Callable[[], object], seconds: float = math.inf) -> float | None:
    """Run an action in another process, and kill it after some time. Returns the time it took to finish."""
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        try:
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.perf_counter() - began > seconds:
            os.kill(pid, signal.SIGKILL)
            ended = os.waitpid(pid, 0)
            break
        time.sleep(0.001)
    assert ended[1] in (0, signal.SIGKILL), "the transfer failed"
    return time.perf_counter() - began if ended[1] == 0 else None


class Transfer(Protocol):
    """A transfer to a new place."""

    def run(self) -> None: ...

    def check(self) -> None:
        """What must hold at any instant."""

    def check_result(self) -> None: ...


def kill_often(begin: Callable[[int], Transfer]) -> None:
    """Kill transfers at random instants.

    One that finishes before is followed by one to another place, and its time bounds the next instants,
    because the load of the machine changes.
    """
    timed = begin(0)
    seconds = run_apart(timed.run)
    assert seconds is not None
    timed.check_result()
    chosen, places, kills = random.Random(1), 1, 0
    current = begin(places)
    while kills < KILLS:
        finished = run_apart(current.run, chosen.uniform(0, seconds))
        if finished is None:
            kills += 1
            current.check()
            continue
        seconds = finished
        current.check_result()
        places += 1
        assert places < 10 * KILLS, "it finishes before it is killed"
        current = begin(places)
    assert run_apart(current.run) is not None
    current.check_result()


def files_of(folder: Path) -> dict[str, bytes]:
    names = ("manifest.json", "artifact.json", ".pulled.json")
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name not in names
    }


def recipe(*arguments: object) -> None:
    done = CliRunner().invoke(main, [str(one) for one in arguments])
    assert done.exit_code == 0, done.output


def test_a_killed_push(made: tuple[Plan, Home], target: Reference, tmp_path: Path) -> None:
    plan, home = made
    product = home.store.read(plan.steps[0].key)
    packed, cache = pack_product(product, PUBLISHED_RECORDS), tmp_path / "cache" / "posttrain"

    class Push:
        def __init__(self, place: int) -> None:
            self.place = replace(target, name=f"{target.name}-{place}", tag="v1")
            shutil.rmtree(cache / "pushed", ignore_errors=True)  # nothing is mounted from another repository

        def run(self) -> None:
            with RegistryClient(self.place) as client:
                push_artifact(client, packed, ["v1"])

        def check(self) -> None:
            with RegistryClient(self.place) as client:
                found = client.find_manifest("v1")
                assert found is None or all(client.has_blob(blob.digest) for blob in packed.blobs)

        def check_result(self) -> None:
            recipe("pull", self.place, tmp_path / self.place.name.rpartition("-")[2])
            assert files_of(tmp_path / self.place.name.rpartition("-")[2]) == files_of(product.files)
            assert not list((cache / "uploads").glob("*"))

    kill_often(Push)


def test_a_killed_pull_of_a_product(made: tuple[Plan, Home], target: Reference, tmp_path: Path) -> None:
    plan, home = made
    product = home.store.read(plan.steps[0].key)
    with RegistryClient(target) as client:
        push_artifact(client, pack_product(product, PUBLISHED_RECORDS), ["latest"])

    class Pull:
        def __init__(self, place: int) -> None:
            self.folder = tmp_path / "pulled" / str(place)
            self.folder.parent.mkdir(exist_ok=True)

        def run(self) -> None:
            if not self.folder.exists():
                main(["pull", str(target), str(self.folder)], standalone_mode=False)

        def check(self) -> None:
            if self.folder.exists():
                assert files_of(self.folder) == files_of(product.files)

        def check_result(self) -> None:
            assert files_of(self.folder) == files_of(product.files)
            assert not list(self.folder.parent.glob(".*"))

    kill_often(Pull)


def test_a_killed_pull_of_a_recipe(registry: str, tmp_path: Path) -> None:
    published = tmp_path / "published"
    published.mkdir()
    names = [f"data-{n}.bin" for n in range(FILES)]
    for name in names:
        (published / name).write_bytes(os.urandom(FILE_BYTES))
    (published / "recipe.yaml").write_text(
        f"recipe: 1\nname: a\nstages: {{a: {{script: [sh, -c, ls], files: [{', '.join(names)}]}}}}\n"
    )
    address = f"oci://{registry}/test/{uuid.uuid4().hex}:v1"
    recipe("push", published, address)
    cache = tmp_path / "cache" / "posttrain"

    class Pull:
        def __init__(self, place: int) -> None:
            self.folder = tmp_path / "pulled" / str(place)
            self.folder.parent.mkdir(exist_ok=True)
            shutil.rmtree(cache, ignore_errors=True)

        def run(self) -> None:
            if not self.folder.exists():
                main(["pull", address, str(self.folder)], standalone_mode=False)

        def check(self) -> None:
            if self.folder.exists():
                assert files_of(self.folder).items() >= files_of(published).items()
            for blob in (cache / "blobs" / "sha256").glob("[!.]*"):
                assert artifact_cache.is_cached(f"sha256:{blob.name}")

        def check_result(self) -> None:
            assert files_of(self.folder).items() >= files_of(published).items()
            assert not list(self.folder.parent.glob(".*"))
            artifact_cache.remove_leftovers(time.time() + 8 * 86_400)
            assert not list(cache.rglob(".*"))

    kill_often(Pull)


def test_a_killed_download_from_the_cache(made: tuple[Plan, Home], target: Reference, tmp_path: Path) -> None:
    plan, home = made
    product = home.store.read(plan.steps[0].key)
    cache = SharedCache(home, target, writes=True, note=print)
    cache.push(plan.steps[0], product)
    cache.close(wait=True)

    class Fetch:
        def __init__(self, place: int) -> None:
            self.home = Home(tmp_path / "homes" / str(place))

        def run(self) -> None:
            fetched = SharedCache(self.home, target, writes=False, note=print)
            assert fetched.fetch(fetched.find(plan.steps))
            fetched.close(wait=True)

        def check(self) -> None:
            assert not check_home(self.home, VerifyProgress(), repair_damage=False)

        def check_result(self) -> None:
            self.check()
            assert self.home.store.read(product.key).manifest == product.manifest
            assert not list((self.home.root / "work").iterdir())

    kill_often(Fetch)
