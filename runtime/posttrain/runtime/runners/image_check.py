"""Whether an image holds the stack that plans are made for. Inside it, this file says what is there:
`python -m posttrain.runtime.runners.image_check`.
"""

import json
from collections.abc import Mapping
from threading import Event
from typing import TYPE_CHECKING

from posttrain.runtime.errors import StepError
from posttrain.runtime.runners.docker_engine import connect, translate_engine_errors
from posttrain.runtime.runners.docker_images import PullListener, ensure_image

if TYPE_CHECKING:
    from docker import DockerClient

_COMMAND = ["python", "-m", "posttrain.runtime.runners.image_check"]


def planned_versions() -> dict[str, str]:
    """What this release plans for: itself, and the versions that it is pinned to."""
    from posttrain.compiler.facts.pinned_versions import PINNED_VERSIONS
    from posttrain.spec.version import VERSION

    return {"posttrain": VERSION, **PINNED_VERSIONS}


def installed_versions() -> dict[str, str | None]:
    """The installed versions of the planned distributions."""
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {}
    for name in planned_versions():
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def image_versions(image: str, on_progress: PullListener) -> dict[str, str | None]:
    """What an image holds, asked of its own Python. One named by digest is pulled where it is missing."""
    engine = connect()
    try:
        id = (
            ensure_image(engine, image, on_progress, Event())
            if "@" in image
            else _require_local_image(engine, image)
        )
        with translate_engine_errors():
            return json.loads(_run_in_image(engine, id, image))
    finally:
        engine.close()


def _require_local_image(engine: "DockerClient", image: str) -> str:
    from docker.errors import ImageNotFound

    with translate_engine_errors():
        try:
            return engine.api.inspect_image(image)["Id"]
        except ImageNotFound:
            pass
    raise StepError(
        f"there is no image {image} on this machine", "build it with `make image`, or name it by its digest"
    )


def _run_in_image(engine: "DockerClient", id: str, image: str) -> bytes:
    container = engine.containers.create(
        id, entrypoint=_COMMAND, command=[], network_mode="none", read_only=True, cap_drop=["ALL"]
    )
    try:
        container.start()
        if container.wait()["StatusCode"]:
            raise StepError(
                f"{image} holds no posttrain that could be asked: {_last_line(container.logs())}",
                "build one with `make image`",
            )
        return container.logs(stdout=True, stderr=False)
    finally:
        container.remove(force=True)


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it says nothing"


def version_mismatches(found: Mapping[str, str | None]) -> list[tuple[str, str, str]]:
    """Name, planned version and installed version, of what differs."""
    return [
        (name, version, found.get(name) or "missing")
        for name, version in planned_versions().items()
        if found.get(name) != version
    ]


if __name__ == "__main__":
    print(json.dumps(installed_versions()))
