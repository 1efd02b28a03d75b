"""Checks whether an image has the planned versions of the stack.

Inside the image, `python -m posttrain.runtime.runners.image_check` prints the installed versions.
"""

import json
from collections.abc import Collection, Mapping
from threading import Event
from typing import TYPE_CHECKING

from posttrain.runtime.errors import StepError
from posttrain.runtime.runners.docker_engine import connect, translate_engine_errors
from posttrain.runtime.runners.docker_images import PullListener, ensure_image, find_local_image

if TYPE_CHECKING:
    from docker import DockerClient

_CHECK_SECONDS = 60  # time limit of a request of the preflight
# Distributions of extras that no shipped image has, and the kind of step that needs them.
_OPTIONAL = {"lm-eval": "benchmark"}
_COMMAND = ["python", "-m", "posttrain.runtime.runners.image_check"]


def planned_versions() -> dict[str, str]:
    """The versions that this release expects: its own, and the pinned ones."""
    from posttrain.spec.pinned_versions import PINNED_VERSIONS
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
    """The versions in an image, as its Python reports them. Pulls a missing image named by digest."""
    engine = connect()
    try:
        id = (
            ensure_image(engine, image, on_progress, Event())
            if "@" in image
            else _require_local_image(engine, image)
        )
        with translate_engine_errors():
            return json.loads(_run_in_image(engine, id, image, _COMMAND))
    finally:
        engine.close()


def local_image_output(image: str, arguments: list[str]) -> bytes | None:
    """What the Python of an image prints, without network; None if the image is not on this machine."""
    engine = connect(_CHECK_SECONDS)
    try:
        with translate_engine_errors():
            id = find_local_image(engine, image)
            return None if id is None else _run_in_image(engine, id, image, ["python", *arguments])
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
        f"the image {image} is not on this machine",
        "build it with `make image`, or name it by its digest to pull it",
    )


def _run_in_image(engine: "DockerClient", id: str, image: str, entrypoint: list[str]) -> bytes:
    container = engine.containers.create(
        id, entrypoint=entrypoint, command=[], network_mode="none", read_only=True, cap_drop=["ALL"]
    )
    try:
        container.start()
        if container.wait()["StatusCode"]:
            raise StepError(
                f"{image} has no working posttrain: {_last_line(container.logs())}",
                "build one with `make image`",
            )
        return container.logs(stdout=True, stderr=False)
    finally:
        container.remove(force=True)


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no output"


def version_mismatches(
    found: Mapping[str, str | None], kinds: Collection[str] = ()
) -> list[tuple[str, str, str]]:
    """Name, planned version and installed version of each mismatch. `kinds` are the kinds of steps that the
    image will run: what only others need may be missing."""
    return [
        (name, version, found.get(name) or "missing")
        for name, version in planned_versions().items()
        if found.get(name) != version
        and (found.get(name) is not None or name not in _OPTIONAL or _OPTIONAL[name] in kinds)
    ]


if __name__ == "__main__":
    print(json.dumps(installed_versions()))
