"""Checks that container images are pinned by digest, directly or in the lock, because tags can move."""

import re
from collections.abc import Iterator

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.parsing.typed_recipe import TypedRecipe
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.diagnostic import Code
from posttrain.spec.hardware import Container
from posttrain.spec.image_names import IMAGE_TAG_PATTERN

_DIGEST = "6d4c7a3f0e1b2958" * 4
UNPINNED_IMAGE = Code(
    "PT0901",
    "image without a digest",
    "error",
    "An image is written NAME@sha256:..., with 64 hexadecimal digits and no tag. The digest is part of every"
    " key, because a tag can move to another image and then no longer identifies how a product was made. An"
    " image with a tag needs a lock: `recipe lock` resolves the tag to a digest, and `recipe run --locked`"
    " uses that digest. For an image that was pushed or pulled, `docker image inspect --format '{{index"
    " .RepoDigests 0}}' NAME` prints the reference.",
    wrong=minimal_recipe(("datasets:", "container: {image: posttrain-cpu:latest}\ndatasets:")),
    right=minimal_recipe(
        ("datasets:", f"container:\n  image: registry.example/posttrain-cpu@sha256:{_DIGEST}\ndatasets:")
    ),
)
CODES = (UNPINNED_IMAGE,)

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?"
_PINNED = re.compile(rf"{_HOST}{_PART}(?:/{_PART})*@sha256:[0-9a-f]{{64}}")


def check_container_images(recipe: TypedRecipe, request: CompileRequest, diagnostics: Diagnostics) -> None:
    # A tag that is not in the lock is reported with the lock.
    tags_allowed = request.allow_image_tags or request.lock is not None
    for path, container in _containers(recipe):
        if tags_allowed and IMAGE_TAG_PATTERN.fullmatch(container.image):
            continue
        if _PINNED.fullmatch(container.image) is None:
            message, help = _describe_problem(container.image)
            diagnostics.add(UNPINNED_IMAGE, (*path, "image"), message, help=help)


_LOCK_HELP = (
    "write NAME@sha256:..., or lock the tag: run `recipe lock`, then `recipe plan` and `recipe run` with"
    " --locked"
)


def _containers(recipe: TypedRecipe) -> Iterator[tuple[KeyPath, Container]]:
    if recipe.container is not None:
        yield ("container",), recipe.container
    for name, stage in recipe.stages.items():
        if stage.container is not None:
            yield ("stages", name, "container"), stage.container


def _describe_problem(image: str) -> tuple[str, str]:
    """Return the problem of an image reference, and how to fix it."""
    name, at, digest = image.partition("@")
    tagged = ":" in name.rpartition("/")[2]
    if not at:
        if IMAGE_TAG_PATTERN.fullmatch(image):
            return f"`{image}` has no digest", _LOCK_HELP
        return f"`{image}` is not an image name", "use lowercase: REGISTRY/NAME"
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        return f"`{digest}` is not a digest", "write sha256: and 64 lowercase hexadecimal digits"
    if tagged:
        return (
            f"`{image}` has a tag and a digest",
            f"write {name.rpartition(':')[0]}@{digest}: the digest identifies the image",
        )
    return f"`{name}` is not an image name", "use lowercase: REGISTRY/NAME"
