"""The image of the container tests, in a local registry; removed after the session."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.containers.image_builder import push_image

if TYPE_CHECKING:
    from docker import DockerClient


@pytest.fixture(scope="session")
def stack_image(docker_engine: "DockerClient", registry: str) -> Iterator[str]:
    """The reference with digest of an image in the registry that the engine has not pulled yet.

    Push and pull take minutes. POSTTRAIN_TEST_STACK_IMAGE names an existing image to reuse.
    """
    if existing := os.environ.get("POSTTRAIN_TEST_STACK_IMAGE"):
        yield existing
        return
    reference = push_image(registry, "posttrain-test-stack")
    yield reference
    digest = reference.rpartition("@")[2]
    for image in docker_engine.images.list():
        if any(name.endswith(digest) for name in image.attrs["RepoDigests"] or ()):
            docker_engine.images.remove(image.id, force=True)
