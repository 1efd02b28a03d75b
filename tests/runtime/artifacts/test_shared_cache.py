"""A shared cache in a registry in memory: launches, foreign products, tampering, missing rights."""

import json
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from tests.runtime.registry.fake_registry import FakeRegistry, serve_registry
from tests.runtime.scripts_recipe import RECIPE, compile_text

from posttrain.cli.main import main
from posttrain.runtime.artifacts import shared_cache
from posttrain.runtime.artifacts.shared_cache import SharedCache
from posttrain.runtime.execution.run_errors import PreflightFailed
from posttrain.runtime.execution.run_observer import RunObserver
from posttrain.runtime.execution.run_plan import CacheOptions, RunOptions, RunResult, run_plan
from posttrain.runtime.preflight import disk_space
from posttrain.runtime.preflight.finding import Finding, error
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.runtime.registry.oci_manifest import Descriptor
from posttrain.runtime.registry.oci_reference import Reference, parse_reference
from posttrain.runtime.registry.registry_client import RegistryClient
from posttrain.runtime.registry.registry_session import RegistrySession
from posttrain.runtime.store.home import Home
from posttrain.spec.plan import Plan


class Notes(RunObserver):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[FakeRegistry]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setattr(RegistrySession, "_pause", Mock())
    with serve_registry() as state:
        yield state


@pytest.fixture
def recipe(tmp_path: Path) -> tuple[Plan, RunOptions]:
    return compile_text(tmp_path, RECIPE)


def reference(fake: FakeRegistry) -> Reference:
    return parse_reference(f"oci://{fake.address}/cache")


def run(recipe: tuple[Plan, RunOptions], fake: FakeRegistry, home: Path, notes: Notes) -> RunResult:
    plan, options = recipe
    cached = RunOptions(recipe=options.recipe, report=False, cache=CacheOptions(reference=reference(fake)))
    return run_plan(plan, Home(home), cached, notes)


def fetch(fake: FakeRegistry, home: Path, plan: Plan) -> list[str]:
    notes = Notes()
    cache = SharedCache(Home(home), reference(fake), writes=False, note=notes.note)
    cache.fetch(cache.find(plan.steps))
    cache.close(wait=True)
    return notes.texts


def test_a_second_home_runs_nothing(
    recipe: tuple[Plan, RunOptions], fake: FakeRegistry, tmp_path: Path
) -> None:
    assert set(run(recipe, fake, tmp_path / "one", Notes()).states.values()) == {"done"}
    sent = [path for method, path, _ in fake.requests if method == "PUT" and "digest" in path]
    assert len(sent) == len(set(sent))  # nothing twice
    assert set(run(recipe, fake, tmp_path / "two", Notes()).states.values()) == {"cached"}
    for step in recipe[0].steps:
        one, two = (Home(tmp_path / home).store.read(step.key) for home in ("one", "two"))
        assert one.manifest == two.manifest
        assert set(one.manifest.record) == {"step.json"}
        assert {path.name for path in one.record.iterdir()} == {path.name for path in two.record.iterdir()}


def test_a_product_of_another_launch_is_named_and_not_used(
    recipe: tuple[Plan, RunOptions], fake: FakeRegistry, tmp_path: Path
) -> None:
    run(recipe, fake, tmp_path / "one", Notes())
    launch = {"launch": recipe[0].steps[0].launch.model_copy(update={"processes": 2, "strategy": "ddp"})}
    steps = tuple(step.model_copy(update=launch) for step in recipe[0].steps)
    notes = fetch(fake, tmp_path / "two", recipe[0].model_copy(update={"steps": steps}))
    assert len(notes) == 2
    assert "is not used: made with 1 process, the plan has 2 processes (ddp)" in notes[0]
    assert Home(tmp_path / "two").store.all_keys() == []


def test_a_product_under_the_tag_of_another_key_is_not_used(
    recipe: tuple[Plan, RunOptions], fake: FakeRegistry, tmp_path: Path
) -> None:
    run(recipe, fake, tmp_path / "one", Notes())
    tags = sorted(name for name in fake.manifests if name.startswith("key-") and name.count("-") == 2)
    fake.manifests[tags[0]], fake.manifests[tags[1]] = fake.manifests[tags[1]], fake.manifests[tags[0]]
    notes = fetch(fake, tmp_path / "two", recipe[0])
    assert len(notes) == 2
    assert all("it has another key" in note for note in notes)


def test_tampered_products_are_not_used(
    recipe: tuple[Plan, RunOptions], fake: FakeRegistry, tmp_path: Path
) -> None:
    run(recipe, fake, tmp_path / "one", Notes())
    for digest, data in fake.blobs.items():
        if b'"checksum"' not in data:
            fake.served[digest] = b"x" * len(data)
    notes = fetch(fake, tmp_path / "two", recipe[0])
    assert all("digest mismatch" in note for note in notes[:2])
    assert Home(tmp_path / "two").store.all_keys() == []
    assert set(run(recipe, fake, tmp_path / "two", Notes()).states.values()) == {"done"}


def test_a_swapped_layer_is_not_used(
    recipe: tuple[Plan, RunOptions], fake: FakeRegistry, tmp_path: Path
) -> None:
    run(recipe, fake, tmp_path / "one", Notes())
    evil = fake.put_blob(b"evil")
    for name, (media_type, data) in list(fake.manifests.items()):
        manifest = json.loads(data)
        manifest["layers"][0] |= {"digest": evil, "size": 4}
        fake.manifests[name] = (media_type, json.dumps(manifest).encode())
    notes = fetch(fake, tmp_path / "two", recipe[0])
    assert all("the layers are not the files of the product's manifest" in note for note in notes)
    assert len(notes) == 2


def test_a_swapped_record_is_not_used(
    recipe: tuple[Plan, RunOptions], fake: FakeRegistry, tmp_path: Path
) -> None:
    run(recipe, fake, tmp_path / "one", Notes())
    evil = fake.put_blob(b"evil")
    for name, (media_type, data) in list(fake.manifests.items()):
        manifest = json.loads(data)
        for layer in manifest["layers"]:
            if layer["annotations"]["org.opencontainers.image.title"].endswith("/step.json"):
                layer |= {"digest": evil, "size": 4}
        fake.manifests[name] = (media_type, json.dumps(manifest).encode())
    notes = fetch(fake, tmp_path / "two", recipe[0])
    assert len(notes) == 2
    assert all("the layer of step.json is not that of the product's manifest" in note for note in notes)


def test_a_run_without_rights_goes_on(
    recipe: tuple[Plan, RunOptions], fake: FakeRegistry, tmp_path: Path
) -> None:
    fake.auth = "basic"
    notes = Notes()
    assert set(run(recipe, fake, tmp_path / "one", notes).states.values()) == {"done"}
    assert len(notes.texts) == 1
    assert "UNAUTHORIZED: authentication required" in notes.texts[0]


def test_the_rest_of_another_download_is_not_committed(
    recipe: tuple[Plan, RunOptions], fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted download of a product, which somebody has replaced by another one since."""
    run(recipe, fake, tmp_path / "one", Notes())
    home = Home(tmp_path / "two")
    download = RegistryClient.download_blob

    def stop(client: RegistryClient, blob: Descriptor, path: Path, _: object) -> None:
        download(client, blob, path)
        (path.parent / "of the replaced product").write_text("old")
        raise KeyboardInterrupt

    monkeypatch.setattr(RegistryClient, "download_blob", stop)
    with pytest.raises(KeyboardInterrupt):
        fetch(fake, home.root, recipe[0])
    monkeypatch.setattr(RegistryClient, "download_blob", download)
    for name, (media_type, data) in list(fake.manifests.items()):
        replaced = {**json.loads(data), "annotations": {"replaced": "yes"}}
        fake.manifests[name] = (media_type, json.dumps(replaced).encode())
    assert fetch(fake, home.root, recipe[0])[-1].startswith("2 products were fetched")
    for step in recipe[0].steps:
        product = home.store.read(step.key)
        found = {path.relative_to(product.files).as_posix() for path in product.files.rglob("*")}
        assert {name for name in found if (product.files / name).is_file()} == set(product.manifest.files)


def test_a_full_disk_does_not_fail_a_run(
    recipe: tuple[Plan, RunOptions], fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(recipe, fake, tmp_path / "one", Notes())

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr(RegistryClient, "download_blob", refuse)
    notes = fetch(fake, tmp_path / "two", recipe[0])
    assert len(notes) == 2
    assert all("No space left on device (somewhere)" in note for note in notes)


def test_a_product_that_the_disk_has_no_room_for_is_not_downloaded(
    recipe: tuple[Plan, RunOptions], fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its publisher says how large it is: a disk must not run full because of it."""
    run(recipe, fake, tmp_path / "one", Notes())
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shared_cache.shutil, "disk_usage", Mock(return_value=usage))
    requests = len(fake.requests)
    notes = fetch(fake, tmp_path / "two", recipe[0])
    assert len(notes) == 2
    assert all("and 10 bytes are free on the disk" in note for note in notes)
    read = [path for _, path, _ in fake.requests[requests:] if "/blobs/" in path]
    assert len(read) == 2  # the manifests of the products


class Trace(Notes):
    """The order of what a run reports."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []

    def on_findings(self, findings: Sequence[Finding]) -> None:
        self.events.append("findings")

    def on_change(self, id: str, state: str, known: Mapping[str, Any]) -> None:
        if state != "fetching" or known["done"] == known["total"]:
            self.events.append(f"{id} {state}")


def test_the_preflight_comes_before_the_downloads(
    recipe: tuple[Plan, RunOptions], fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that cannot start fetches nothing, and the steps that are fetched are not checked."""
    plan, options = recipe
    run(recipe, fake, tmp_path / "one", Notes())
    checked: list[str] = []

    def refuse(scope: Scope) -> Iterator[Probe]:
        checked.extend(step.id for step in scope.steps)
        yield lambda: [error("disk", scope.steps[0], "no", "never")]

    monkeypatch.setattr(disk_space, "probes", refuse)
    trace = Trace()
    assert set(run(recipe, fake, tmp_path / "two", trace).states.values()) == {"cached"}
    assert checked == []
    assert trace.events[:2] == ["count fetching", "double fetching"]
    tag = next(name for name in fake.manifests if name.startswith(f"key-{plan.steps[1].key}-"))
    del fake.manifests[tag]
    with pytest.raises(PreflightFailed):
        run((plan, options), fake, tmp_path / "three", Notes())
    assert checked == ["double"]
    assert Home(tmp_path / "three").store.all_keys() == []


def test_a_step_that_could_not_be_fetched_is_checked(
    recipe: tuple[Plan, RunOptions], fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(recipe, fake, tmp_path / "one", Notes())
    for digest, data in fake.blobs.items():
        if b'"checksum"' not in data:
            fake.served[digest] = b"x" * len(data)

    def refuse(scope: Scope) -> Iterator[Probe]:
        yield lambda: [error("disk", scope.steps[0], "no", "never")]

    monkeypatch.setattr(disk_space, "probes", refuse)
    with pytest.raises(PreflightFailed):
        run(recipe, fake, tmp_path / "two", Notes())


def test_a_dry_run_shows_what_would_be_fetched(
    recipe: tuple[Plan, RunOptions], fake: FakeRegistry, tmp_path: Path
) -> None:
    run(recipe, fake, tmp_path / "one", Notes())
    home, address = tmp_path / "two", str(reference(fake))
    command = ["run", str(recipe[1].recipe), "--home", str(home), "--dry-run"]
    shown = CliRunner().invoke(main, [*command, "--cache", address])
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("fetched from the cache (") == 2
    assert not home.exists()
    assert "fetched" not in CliRunner().invoke(main, command).output
    fake.auth = "basic"
    shown = CliRunner().invoke(main, [*command, "--cache", address])
    assert shown.exit_code == 0
    assert "the cache is not used" in shown.stderr
