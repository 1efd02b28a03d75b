"""Checks that the Docker engine answers, and that it has or can pull the images of the steps."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from posttrain.runtime.errors import StepError
from posttrain.runtime.preflight.finding import Finding, error, warning
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.spec.plan import Step

if TYPE_CHECKING:
    from docker import DockerClient

_SECONDS = 10  # time limit of a request to the engine


def probes(scope: Scope) -> Iterator[Probe]:
    steps: dict[str, list[Step]] = {}
    for step in scope.steps:
        if step.image is not None:
            steps.setdefault(step.image, []).append(step)
    if steps:
        yield lambda: _check_images(steps)


def _check_images(steps: dict[str, list[Step]]) -> list[Finding]:
    from posttrain.runtime.runners.docker_engine import connect

    try:
        engine = connect(_SECONDS)
    except StepError as problem:
        readers = [step for group in steps.values() for step in group]
        return [error("image", step, str(problem), problem.advice) for step in readers]
    try:
        return [one for image, readers in steps.items() for one in _check_image(engine, image, readers)]
    finally:
        engine.close()


def _check_image(engine: "DockerClient", image: str, readers: Sequence[Step]) -> list[Finding]:
    """Look for the image on this machine, and then at its registry."""
    from posttrain.runtime.lockfile.image_digests import platform_digests
    from posttrain.runtime.runners.docker_engine import translate_engine_errors
    from posttrain.runtime.runners.docker_images import find_local_image

    try:
        with translate_engine_errors():
            if find_local_image(engine, image) is not None:
                return []
        platform_digests(image)
    except StepError as problem:
        cause = f"the image {image} is not on this machine: {problem}"
        report = warning if problem.retriable else error
        return [report("image", step, cause, problem.advice) for step in readers]
    return []
