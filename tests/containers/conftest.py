"""The image that steps run in, in a registry of the tests' own; and what is left of it afterwards."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.containers.image_builder import push_image

if TYPE_CHECKING:
    from docker import DockerClient


@pytest.fixture(scope="session")
def stack_image(docker_engine: "DockerClient", registry: str) -> Iterator[str]:
    """The reference, by digest, of an image in the registry that the engine has not pulled yet.

    Pushing and pulling it takes minutes: POSTTRAIN_TEST_STACK_IMAGE names one to use again.
    """
    if given := os.environ.get("POSTTRAIN_TEST_STACK_IMAGE"):
        yield given
        return
    reference = push_image(registry, "posttrain-test-stack")
    yield reference
    digest = reference.rpartition("@")[2]
    for image in docker_engine.images.list():
        if any(name.endswith(digest) for name in image.attrs["RepoDigests"] or ()):
            docker_engine.images.remove(image.id, force=True)
