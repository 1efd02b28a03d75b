"""Platform digests from a registry: of an index, or of a single image."""

import hashlib
import http.client
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.containers.image_builder import RegistryClient
from tests.recipe_command import RECIPE_COMMAND

from posttrain.runtime.errors import StepError
from posttrain.runtime.lockfile.image_digests import platform_digests

pytestmark = pytest.mark.docker
_INDEX = "application/vnd.oci.image.index.v1+json"


def push_image(registry: RegistryClient, os: str, cpu: str, variant: str | None = None) -> str:
    """Push an image without layers and return its digest."""
    about = {"os": os, "architecture": cpu, "rootfs": {"type": "layers", "diff_ids": []}, "config": {}}
    return registry.push_manifest(registry.push_json(about | ({"variant": variant} if variant else {})), [])


def push_index(address: str, name: str, images: list[dict[str, Any]], tag: str | None = None) -> str:
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": images}
    data = json.dumps(index).encode()
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("PUT", f"/v2/{name}/manifests/{tag or digest}", data, {"Content-Type": _INDEX})
    answer = connection.getresponse()
    assert answer.status == 201, answer.read()
    connection.close()
    return digest


def index_entry(digest: str, os: str, cpu: str, **more: str) -> dict[str, Any]:
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    return {
        "mediaType": kind,
        "digest": digest,
        "size": 1,
        "platform": {"os": os, "architecture": cpu, **more},
    }


def test_the_platforms_of_an_index(registry: str) -> None:
    name = "posttrain-test/index"
    door = RegistryClient(registry, name)
    amd, arm = push_image(door, "linux", "amd64"), push_image(door, "linux", "arm64", "v8")
    signed = push_image(door, "unknown", "unknown")
    digest = push_index(
        registry,
        name,
        [
            index_entry(amd, "linux", "amd64"),
            index_entry(arm, "linux", "arm64", variant="v8"),
            index_entry(signed, "unknown", "unknown"),
        ],
    )
    assert platform_digests(f"{registry}/{name}@{digest}") == {"linux/amd64": amd, "linux/arm64/v8": arm}


def test_the_platform_of_a_single_image(registry: str) -> None:
    name = "posttrain-test/single"
    digest = push_image(RegistryClient(registry, name), "linux", "amd64")
    assert platform_digests(f"{registry}/{name}@{digest}") == {"linux/amd64": digest}


def test_an_image_that_is_not_there(registry: str) -> None:
    with pytest.raises(
        StepError, match=r"refused posttrain-test/none: MANIFEST_UNKNOWN: manifest unknown .*status 404"
    ):
        platform_digests(f"{registry}/posttrain-test/none@sha256:{'0' * 64}")


def test_a_registry_that_does_not_answer() -> None:
    with pytest.raises(StepError, match=r"cannot reach the registry 127\.0\.0\.1:1"):
        platform_digests(f"127.0.0.1:1/posttrain@sha256:{'0' * 64}")


def test_an_image_is_locked_with_its_platforms(registry: str, tmp_path: Any) -> None:
    name = "posttrain-test/locked"
    digest = push_image(RegistryClient(registry, name), "linux", "amd64")
    image = f"{registry}/{name}@{digest}"
    recipe = (
        f"recipe: 1\nname: it\ncontainer: {{image: '{image}'}}\nstages: {{a: {{script: [sh, -c, exit]}}}}\n"
    )
    (tmp_path / "recipe.yaml").write_text(recipe)
    command = [*RECIPE_COMMAND, "lock", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.dumps(["image", image, f"linux/amd64={digest}"]) in (tmp_path / "recipe.lock").read_text()
    planned = [*RECIPE_COMMAND, "plan", str(tmp_path), "--locked"]
    assert subprocess.run(planned, capture_output=True, check=False).returncode == 0
    (tmp_path / "recipe.lock").write_text((tmp_path / "recipe.lock").read_text().splitlines()[0] + "\n")
    refused = subprocess.run(planned, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "is not locked" in refused.stderr


def recipe(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RECIPE_COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def locked_images(folder: Path) -> list[str]:
    """The images of the plan's steps, resolved with the lock."""
    done = recipe("plan", folder, "--locked", "--format", "json")
    assert done.returncode == 0, done.stderr
    return [step["image"] for step in json.loads(done.stdout)["steps"]]


def test_a_tag_is_locked_at_its_digest(registry: str, tmp_path: Path) -> None:
    name = "posttrain-test/tagged"
    door = RegistryClient(registry, name)
    first, second = push_image(door, "linux", "amd64"), push_image(door, "linux", "arm64")
    one = push_index(registry, name, [index_entry(first, "linux", "amd64")], tag="v1")
    image = f"{registry}/{name}:v1"
    (tmp_path / "recipe.yaml").write_text(
        f"recipe: 1\nname: it\nstages: {{a: {{script: [sh, -c, exit], container: {{image: '{image}'}}}}}}\n"
    )

    refused = recipe("plan", tmp_path)
    assert refused.returncode == 1
    assert "has no digest" in refused.stderr
    assert "recipe lock" in refused.stderr

    assert recipe("lock", tmp_path).returncode == 0
    entries = (tmp_path / "recipe.lock").read_text().splitlines()[1:]
    assert entries == [json.dumps(["image", image, f"{one} linux/amd64={first}"])]
    assert locked_images(tmp_path) == [f"{registry}/{name}@{one}"]

    both = [index_entry(first, "linux", "amd64"), index_entry(second, "linux", "arm64")]
    other = push_index(registry, name, both, tag="v1")
    assert other != one
    assert recipe("lock", tmp_path).returncode == 0
    assert locked_images(tmp_path) == [f"{registry}/{name}@{one}"]  # a tag that moved changes nothing
    assert recipe("lock", tmp_path, "--check").returncode == 0
    assert recipe("lock", tmp_path, "--upgrade").returncode == 0
    assert locked_images(tmp_path) == [f"{registry}/{name}@{other}"]

    (tmp_path / "recipe.lock").write_text("\n".join(["# recipe.lock 1, ", ""]))
    unlocked = recipe("plan", tmp_path, "--locked")
    assert unlocked.returncode == 1
    assert f"has no digest for the image `{image}`" in unlocked.stderr
    assert unlocked.stderr.count("error[") == 1
