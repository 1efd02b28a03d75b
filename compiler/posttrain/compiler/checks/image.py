"""Images are named by their digest, or by a tag whose digest the lock holds: what a tag points to
today is not what it points to tomorrow."""

import re
from collections.abc import Iterator

from posttrain.compiler.diagnosis.examples import minimal
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.locking.pins import BY_TAG
from posttrain.compiler.reading.shape import Shaped
from posttrain.compiler.text.source import Request
from posttrain.compiler.text.tree import Path
from posttrain.spec.diagnostic import Code
from posttrain.spec.hardware import Container

_DIGEST = "6d4c7a3f0e1b2958" * 4
NOT_BY_DIGEST = Code(
    "PT0901",
    "an image without its digest",
    "error",
    "An image is written NAME@sha256:..., with 64 hexadecimal digits and no tag. Its digest is part of every"
    " key: a tag can be moved to another image, and a product could not be traced to what made it. Written"
    " by its tag, an image needs a lock: `recipe lock` asks the registry for the digest, and `recipe run"
    " --locked` goes by it. For an image that was pushed or pulled, `docker image inspect --format"
    " '{{index .RepoDigests 0}}' NAME` prints the reference to write here.",
    wrong=minimal(("datasets:", "container: {image: posttrain-cpu:latest}\ndatasets:")),
    right=minimal(
        ("datasets:", f"container:\n  image: registry.example/posttrain-cpu@sha256:{_DIGEST}\ndatasets:")
    ),
)
CODES = (NOT_BY_DIGEST,)

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?"
_BY_DIGEST = re.compile(rf"{_HOST}{_PART}(?:/{_PART})*@sha256:[0-9a-f]{{64}}")


def check_images(recipe: Shaped, request: Request, findings: Findings) -> None:
    taken = request.tags_taken or request.lock is not None  # a tag that the lock lacks is told with the lock
    for path, container in _containers(recipe):
        if taken and BY_TAG.fullmatch(container.image):
            continue
        if _BY_DIGEST.fullmatch(container.image) is None:
            message, help = _wrong(container.image)
            findings.add(NOT_BY_DIGEST, (*path, "image"), message, help=help)


_LOCKED = (
    "write NAME@sha256:..., or lock it: `recipe lock` writes down what the tag stands for, and plan and run"
    " take --locked"
)


def _containers(recipe: Shaped) -> Iterator[tuple[Path, Container]]:
    if recipe.container is not None:
        yield ("container",), recipe.container
    for name, stage in recipe.stages.items():
        if stage.container is not None:
            yield ("stages", name, "container"), stage.container


def _wrong(image: str) -> tuple[str, str]:
    """What is wrong with a reference, and how to mend it."""
    name, at, digest = image.partition("@")
    tagged = ":" in name.rpartition("/")[2]
    if not at:
        if BY_TAG.fullmatch(image):
            return f"`{image}` has no digest", _LOCKED
        return f"`{image}` is no name of an image", "write it in small letters: REGISTRY/NAME"
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        return f"`{digest}` is no digest", "write sha256: and 64 hexadecimal digits, in small letters"
    if tagged:
        return (
            f"`{image}` has a tag and a digest",
            f"write {name.rpartition(':')[0]}@{digest}: the digest decides",
        )
    return f"`{name}` is no name of an image", "write it in small letters: REGISTRY/NAME"
