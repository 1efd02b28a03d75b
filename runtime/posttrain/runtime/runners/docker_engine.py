"""Connects to the Docker engine, and translates its errors to actionable messages."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from posttrain.runtime.errors import StepError

if TYPE_CHECKING:
    from docker import DockerClient

# A pull sends nothing while the engine unpacks a large layer.
_TIMEOUT_SECONDS = 600


def connect(seconds: int = _TIMEOUT_SECONDS) -> "DockerClient":
    """A client of the engine at DOCKER_HOST, or of the local engine, with a time limit of each request."""
    import docker
    from docker.errors import DockerException

    try:
        return docker.from_env(timeout=seconds)
    except DockerException as error:
        raise StepError(
            f"cannot connect to the Docker engine at {engine_address()}: {_root_cause(error)}",
            "start the engine, or set DOCKER_HOST; without `container`, the stage runs as a local process",
            retriable=True,
        ) from None


def engine_address() -> str:
    return os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")


def is_unreachable(error: Exception) -> bool:
    """Whether an error is a connection or server error of the engine, not a rejected request."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    if isinstance(error, APIError):
        return bool(error.is_server_error())
    return isinstance(error, (DockerException, RequestException, OSError))


@contextmanager
def translate_engine_errors() -> Generator[None]:
    """Convert errors of the engine inside this block to StepError."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except APIError as error:
        raise _translate(str(error.explanation or error)) from None
    except (DockerException, RequestException) as error:
        message = f"the Docker engine at {engine_address()} stopped responding: {_root_cause(error)}"
        raise StepError(message, "check that the engine runs, and run again", retriable=True) from None


# Error texts of the engine, with the message and the advice for each.
_KNOWN_ERRORS = (
    (
        ("could not select device driver", "unresolvable CDI devices", "nvidia-container-cli"),
        "Docker on this machine cannot pass GPUs to containers",
        "install the NVIDIA driver and the NVIDIA Container Toolkit, then restart Docker",
    ),
    (
        ("executable file not found", "no such file or directory: unknown"),
        "the image has no `python`",
        "use an image with posttrain: `make image` builds one, `recipe image check` checks one",
    ),
    (
        ("bind source path does not exist",),
        "the Docker engine has no access to the files of this machine",
        "use a local engine: DOCKER_HOST must not point to another machine",
    ),
    (
        ("no space left on device",),
        "the disk with Docker's images is full",
        "free space there (`docker system df` shows the usage), and run again",
    ),
)


def _translate(explanation: str) -> StepError:
    for patterns, message, advice in _KNOWN_ERRORS:
        if any(pattern in explanation for pattern in patterns):
            return StepError(f"{message} (Docker says: {explanation})", advice)
    return StepError(
        f"the container cannot start (Docker says: {explanation})", "see the log of the Docker engine"
    )


def _root_cause(error: Exception) -> str:
    """The innermost error of a chain."""
    while isinstance(error.__context__, Exception):
        error = error.__context__
    return str(error) or type(error).__name__
