"""The output of a program in a container."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docker import DockerClient


def output_of(engine: "DockerClient", image: str, command: list[str]) -> str:
    """Everything the program prints. `containers.run(remove=True)` removes the container before it has read
    all of the output, and the end of a long one is lost."""
    container = engine.containers.create(image, command, network_mode="none")
    try:
        container.start()
        status = container.wait()["StatusCode"]
        printed = container.logs().decode()
    finally:
        container.remove(force=True)
    assert status == 0, printed
    return printed
