"""The door to the Docker engine, and its errors in words that a user can act on."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from posttrain.runtime.faults import StepFault

if TYPE_CHECKING:
    from docker import DockerClient

# A pull can be silent for as long as a large layer takes to unpack.
_SILENCE = 600


def connect() -> "DockerClient":
    """A client of the engine that DOCKER_HOST names, or of this machine's."""
    import docker
    from docker.errors import DockerException

    try:
        return docker.from_env(timeout=_SILENCE)
    except DockerException as error:
        raise StepFault(
            f"no Docker engine answers at {address()}: {_short(error)}",
            "start it, or set DOCKER_HOST; without `container`, the stage runs as a process of this machine",
            retriable=True,
        ) from None


def address() -> str:
    return os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")


def silent(error: Exception) -> bool:
    """Whether an error says that the engine does not answer, and nothing about what it was asked."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    if isinstance(error, APIError):
        return bool(error.is_server_error())
    return isinstance(error, (DockerException, RequestException, OSError))


@contextmanager
def told_plainly() -> Generator[None]:
    """Turn what the engine answers inside this block into a fault of the step."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except APIError as error:
        raise _fault(str(error.explanation or error)) from None
    except (DockerException, RequestException) as error:
        message = f"the Docker engine at {address()} stopped answering: {_short(error)}"
        raise StepFault(message, "see that it runs, and run again", retriable=True) from None


# What the engine says when a container cannot start, what it means, and what to do about it.
_MEANINGS = (
    (
        ("could not select device driver", "unresolvable CDI devices", "nvidia-container-cli"),
        "this machine's Docker cannot give GPUs to containers",
        "install the NVIDIA driver and the NVIDIA Container Toolkit, then restart Docker",
    ),
    (
        ("executable file not found", "no such file or directory: unknown"),
        "the image holds no `python`",
        "use an image with posttrain inside; `make image` builds one and `recipe image check` looks at one",
    ),
    (
        ("bind source path does not exist",),
        "the engine does not see this machine's files",
        "use an engine of this machine: DOCKER_HOST must not name another one",
    ),
    (
        ("no space left on device",),
        "the disk on which Docker keeps its images is full",
        "free space there (`docker system df` shows what takes it), and run again",
    ),
)


def _fault(said: str) -> StepFault:
    for signs, message, advice in _MEANINGS:
        if any(sign in said for sign in signs):
            return StepFault(f"{message} (Docker says: {said})", advice)
    return StepFault(f"the container cannot be started; Docker says: {said}", "see the engine's own log")


def _short(error: Exception) -> str:
    """The cause at the bottom of a chain of wrapped errors."""
    while isinstance(error.__context__, Exception):
        error = error.__context__
    return str(error) or type(error).__name__
