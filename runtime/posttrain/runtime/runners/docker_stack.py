"""Whether an image holds the stack that plans are made for. Inside it, this file says what is there:
`python -m posttrain.runtime.runners.docker_stack`.
"""

import json
from collections.abc import Mapping
from threading import Event
from typing import TYPE_CHECKING

from posttrain.runtime.faults import StepFault
from posttrain.runtime.runners.docker_engine import connect, told_plainly
from posttrain.runtime.runners.docker_images import Told, fetched

if TYPE_CHECKING:
    from docker import DockerClient

_ASK = ["python", "-m", "posttrain.runtime.runners.docker_stack"]


def wanted() -> dict[str, str]:
    """What this release plans for: itself, and the versions that it is pinned to."""
    from posttrain.compiler.facts.stack import PINNED
    from posttrain.spec.version import VERSION

    return {"posttrain": VERSION, **PINNED}


def present() -> dict[str, str | None]:
    """What is installed here, of what is wanted."""
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {}
    for name in wanted():
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def stack_of(image: str, told: Told) -> dict[str, str | None]:
    """What an image holds, asked of its own Python. One named by digest is pulled where it is missing."""
    engine = connect()
    try:
        id = fetched(engine, image, told, Event()) if "@" in image else _local(engine, image)
        with told_plainly():
            return json.loads(_asked(engine, id, image))
    finally:
        engine.close()


def _local(engine: "DockerClient", image: str) -> str:
    from docker.errors import ImageNotFound

    with told_plainly():
        try:
            return engine.api.inspect_image(image)["Id"]
        except ImageNotFound:
            pass
    raise StepFault(
        f"there is no image {image} on this machine", "build it with `make image`, or name it by its digest"
    )


def _asked(engine: "DockerClient", id: str, image: str) -> bytes:
    container = engine.containers.create(
        id, entrypoint=_ASK, command=[], network_mode="none", read_only=True, cap_drop=["ALL"]
    )
    try:
        container.start()
        if container.wait()["StatusCode"]:
            raise StepFault(
                f"{image} holds no posttrain that could be asked: {_last(container.logs())}",
                "build one with `make image`",
            )
        return container.logs(stdout=True, stderr=False)
    finally:
        container.remove(force=True)


def _last(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it says nothing"


def differences(found: Mapping[str, str | None]) -> list[tuple[str, str, str]]:
    """Name, wanted version and version there, of what is not as planned."""
    return [
        (name, version, found.get(name) or "missing")
        for name, version in wanted().items()
        if found.get(name) != version
    ]


if __name__ == "__main__":
    print(json.dumps(present()))
