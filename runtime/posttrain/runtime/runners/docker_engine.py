"""The connection to the Docker engine, and its errors as messages that a user can act on."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from posttrain.runtime.errors import StepError

if TYPE_CHECKING:
    from docker import DockerClient

# A pull can be silent for as long as a large layer takes to unpack.
_TIMEOUT_SECONDS = 600


def connect() -> "DockerClient":
    """A client of the engine that DOCKER_HOST names, or of this machine's."""
    import docker
    from docker.errors import DockerException

    try:
        return docker.from_env(timeout=_TIMEOUT_SECONDS)
    except DockerException as error:
        raise StepError(
            f"no Docker engine answers at {engine_address()}: {_root_cause(error)}",
            "start it, or set DOCKER_HOST; without `container`, the stage runs as a process of this machine",
            retriable=True,
        ) from None


def engine_address() -> str:
    return os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")


def is_unreachable(error: Exception) -> bool:
    """Whether an error says that the engine does not answer, and nothing about what it was asked."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    if isinstance(error, APIError):
        return bool(error.is_server_error())
    return isinstance(error, (DockerException, RequestException, OSError))


@contextmanager
def translate_engine_errors() -> Generator[None]:
    """Turn what the engine answers inside this block into an error of the step."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except APIError as error:
        raise _translate(str(error.explanation or error)) from None
    except (DockerException, RequestException) as error:
        message = f"the Docker engine at {engine_address()} stopped answering: {_root_cause(error)}"
        raise StepError(message, "see that it runs, and run again", retriable=True) from None


# What the engine says when a container cannot start, what it means, and what to do about it.
_KNOWN_ERRORS = (
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


def _translate(explanation: str) -> StepError:
    for patterns, message, advice in _KNOWN_ERRORS:
        if any(pattern in explanation for pattern in patterns):
            return StepError(f"{message} (Docker says: {explanation})", advice)
    return StepError(
        f"the container cannot be started; Docker says: {explanation}", "see the engine's own log"
    )


def _root_cause(error: Exception) -> str:
    """The cause at the bottom of a chain of wrapped errors."""
    while isinstance(error.__context__, Exception):
        error = error.__context__
    return str(error) or type(error).__name__
