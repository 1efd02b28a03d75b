"""Finds images by digest, and pulls missing ones."""

from collections.abc import Callable, Iterable, Mapping
from threading import Event
from typing import TYPE_CHECKING, Any

from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.runners.docker_engine import translate_engine_errors

if TYPE_CHECKING:
    from docker import DockerClient

# Called with the pulled MB and the total MB.
PullListener = Callable[[int, int], None]


def find_local_image(engine: "DockerClient", image: str) -> str | None:
    """The id of the local image with this digest, regardless of its name. An image that was built here has no
    digest of a registry: its id stands for it, which is a digest of its content too."""
    from docker.errors import ImageNotFound

    try:
        return engine.api.inspect_image(image)["Id"]
    except ImageNotFound:
        pass
    digest = image.rpartition("@")[2]
    for found in engine.api.images():
        if found["Id"] == digest or any(name.endswith(f"@{digest}") for name in found["RepoDigests"] or ()):
            return found["Id"]
    return None


def ensure_image(engine: "DockerClient", image: str, on_progress: PullListener, stopped: Event) -> str:
    """The id of the image, pulled if necessary."""
    with translate_engine_errors():
        found = find_local_image(engine, image)
        if found is None:
            _pull(engine, image, on_progress, stopped)
            found = find_local_image(engine, image)
    if found is None:
        raise StepError(
            f"the image {image} is missing after a successful pull", "see the log of the Docker engine"
        )
    return found


def _pull(engine: "DockerClient", image: str, on_progress: PullListener, stopped: Event) -> None:
    """Pull by digest. Docker reports the errors of a pull in its stream, not as a failed call."""
    from docker.errors import APIError

    name, _, digest = image.partition("@")
    try:
        _report_pull(engine.api.pull(name, tag=digest, stream=True, decode=True), image, on_progress, stopped)
    except APIError as error:
        raise _pull_failure(image, str(error.explanation or error)) from None


def _report_pull(
    stream: Iterable[Mapping[str, Any]], image: str, on_progress: PullListener, stopped: Event
) -> None:
    layers: dict[str, tuple[int, int]] = {}
    for line in stream:
        if stopped.is_set():
            raise Interrupted("stopped during the image pull")
        if "error" in line:
            raise _pull_failure(image, str(line["error"]))
        detail = line.get("progressDetail") or {}
        if line.get("status") == "Downloading" and detail.get("total"):
            layers[line["id"]] = (detail["current"], detail["total"])
            on_progress(sum(c for c, _ in layers.values()) >> 20, sum(t for _, t in layers.values()) >> 20)


_NOT_FOUND_ERRORS = ("manifest unknown", "not found", "does not exist", "name unknown")


def _pull_failure(image: str, explanation: str) -> StepError:
    message = f"the image {image} is not on this machine, and the pull failed: {explanation}"
    if "no space left" in explanation:
        return StepError(message, "free space on the disk with Docker's images, and run again")
    if any(text in explanation for text in _NOT_FOUND_ERRORS):
        advice = (
            "check the name and the digest (the registry may have deleted the image); run `docker login` for"
            " a private image"
        )
        return StepError(message, advice)
    return StepError(message, "check the connection to the registry, and run again", retriable=True)
