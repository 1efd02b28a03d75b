"""What a registry tells of an image: the platforms of an index, or the one of a single image."""

import hashlib
import http.client
import json
import subprocess
from typing import Any

import pytest
from tests.containers.host_image import Registry
from tests.recipe_command import RECIPE

from posttrain.runtime.faults import StepFault
from posttrain.runtime.locking.images import platforms_of

pytestmark = pytest.mark.docker
_INDEX = "application/vnd.oci.image.index.v1+json"


def push_image(registry: Registry, os: str, cpu: str, variant: str | None = None) -> str:
    """An image without layers; gives its digest."""
    about = {"os": os, "architecture": cpu, "rootfs": {"type": "layers", "diff_ids": []}, "config": {}}
    return registry.push_manifest(registry.push_json(about | ({"variant": variant} if variant else {})), [])


def push_index(address: str, name: str, images: list[dict[str, Any]]) -> str:
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": images}
    data = json.dumps(index).encode()
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("PUT", f"/v2/{name}/manifests/{digest}", data, {"Content-Type": _INDEX})
    answer = connection.getresponse()
    assert answer.status == 201, answer.read()
    connection.close()
    return digest


def entry(digest: str, os: str, cpu: str, **more: str) -> dict[str, Any]:
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    return {
        "mediaType": kind,
        "digest": digest,
        "size": 1,
        "platform": {"os": os, "architecture": cpu, **more},
    }


def test_the_platforms_of_an_index(registry: str) -> None:
    name = "posttrain-test/index"
    door = Registry(registry, name)
    amd, arm = push_image(door, "linux", "amd64"), push_image(door, "linux", "arm64", "v8")
    signed = push_image(door, "unknown", "unknown")
    digest = push_index(
        registry,
        name,
        [
            entry(amd, "linux", "amd64"),
            entry(arm, "linux", "arm64", variant="v8"),
            entry(signed, "unknown", "unknown"),
        ],
    )
    assert platforms_of(f"{registry}/{name}@{digest}") == {"linux/amd64": amd, "linux/arm64/v8": arm}


def test_the_platform_of_a_single_image(registry: str) -> None:
    name = "posttrain-test/single"
    digest = push_image(Registry(registry, name), "linux", "amd64")
    assert platforms_of(f"{registry}/{name}@{digest}") == {"linux/amd64": digest}


def test_an_image_that_is_not_there(registry: str) -> None:
    with pytest.raises(StepFault, match="does not give posttrain-test/none: status 404"):
        platforms_of(f"{registry}/posttrain-test/none@sha256:{'0' * 64}")


def test_a_registry_that_does_not_answer() -> None:
    with pytest.raises(StepFault, match=r"127\.0\.0\.1:1 cannot be reached"):
        platforms_of(f"127.0.0.1:1/posttrain@sha256:{'0' * 64}")


def test_an_image_is_locked_with_its_platforms(registry: str, tmp_path: Any) -> None:
    name = "posttrain-test/locked"
    digest = push_image(Registry(registry, name), "linux", "amd64")
    image = f"{registry}/{name}@{digest}"
    recipe = (
        f"recipe: 1\nname: it\ncontainer: {{image: '{image}'}}\nstages: {{a: {{script: [sh, -c, exit]}}}}\n"
    )
    (tmp_path / "recipe.yaml").write_text(recipe)
    command = [*RECIPE, "lock", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.dumps(["image", image, f"linux/amd64={digest}"]) in (tmp_path / "recipe.lock").read_text()
    planned = [*RECIPE, "plan", str(tmp_path), "--locked"]
    assert subprocess.run(planned, capture_output=True, check=False).returncode == 0
    (tmp_path / "recipe.lock").write_text((tmp_path / "recipe.lock").read_text().splitlines()[0] + "\n")
    refused = subprocess.run(planned, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "is not locked" in refused.stderr
