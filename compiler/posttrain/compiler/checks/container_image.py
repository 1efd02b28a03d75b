"""Images are named by their digest, or by a tag whose digest the lock holds: what a tag points to
today is not what it points to tomorrow."""

import re
from collections.abc import Iterator

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.lockfile.pins import IMAGE_TAG_PATTERN
from posttrain.compiler.parsing.typed_recipe import TypedRecipe
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.diagnostic import Code
from posttrain.spec.hardware import Container

_DIGEST = "6d4c7a3f0e1b2958" * 4
UNPINNED_IMAGE = Code(
    "PT0901",
    "an image without its digest",
    "error",
    "An image is written NAME@sha256:..., with 64 hexadecimal digits and no tag. Its digest is part of every"
    " key: a tag can be moved to another image, and a product could not be traced to what made it. Written"
    " by its tag, an image needs a lock: `recipe lock` asks the registry for the digest, and `recipe run"
    " --locked` goes by it. For an image that was pushed or pulled, `docker image inspect --format"
    " '{{index .RepoDigests 0}}' NAME` prints the reference to write here.",
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
    taken = (
        request.allow_image_tags or request.lock is not None
    )  # a tag that the lock lacks is told with the lock
    for path, container in _containers(recipe):
        if taken and IMAGE_TAG_PATTERN.fullmatch(container.image):
            continue
        if _PINNED.fullmatch(container.image) is None:
            message, help = _describe_problem(container.image)
            diagnostics.add(UNPINNED_IMAGE, (*path, "image"), message, help=help)


_LOCK_HELP = (
    "write NAME@sha256:..., or lock it: `recipe lock` writes down what the tag stands for, and plan and run"
    " take --locked"
)


def _containers(recipe: TypedRecipe) -> Iterator[tuple[KeyPath, Container]]:
    if recipe.container is not None:
        yield ("container",), recipe.container
    for name, stage in recipe.stages.items():
        if stage.container is not None:
            yield ("stages", name, "container"), stage.container


def _describe_problem(image: str) -> tuple[str, str]:
    """What is wrong with a reference, and how to mend it."""
    name, at, digest = image.partition("@")
    tagged = ":" in name.rpartition("/")[2]
    if not at:
        if IMAGE_TAG_PATTERN.fullmatch(image):
            return f"`{image}` has no digest", _LOCK_HELP
        return f"`{image}` is no name of an image", "write it in small letters: REGISTRY/NAME"
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        return f"`{digest}` is no digest", "write sha256: and 64 hexadecimal digits, in small letters"
    if tagged:
        return (
            f"`{image}` has a tag and a digest",
            f"write {name.rpartition(':')[0]}@{digest}: the digest decides",
        )
    return f"`{name}` is no name of an image", "write it in small letters: REGISTRY/NAME"
