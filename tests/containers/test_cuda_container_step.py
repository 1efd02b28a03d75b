"""The step in a container of the GPU measurements, on a CPU with the image of these tests."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from perf.cuda.bench import Bench
from perf.cuda.container_step import find_image, report_container
from perf.cuda.results import Report
from perf.cuda.scale import find_scale

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = pytest.mark.docker


def container_row(folder: Path, image: str) -> dict[str, str]:
    report = Report(folder, "sharing", "", {})
    report_container(Bench(find_scale(dry=True), report, folder / "scratch", 600, image))
    (table,) = report.result.tables
    return dict(zip(table.head, table.rows[0], strict=True))


@pytest.mark.slow
def test_a_stage_in_a_container_trains_the_same_weights(stack_image: str, tmp_path: Path) -> None:
    row = container_row(tmp_path, stack_image)
    assert row["ended"] == "yes", row
    assert row["losses"] == row["weights"] == "identical"
    assert float(row["step, s"]) > 0


def test_an_image_that_was_built_here_is_named_by_its_id(
    docker_engine: "DockerClient", busybox_image: str
) -> None:
    name = docker_engine.images.get(busybox_image).tags[0]
    assert find_image(name) == f"{name.rpartition(':')[0]}@{busybox_image}"


def test_an_image_that_the_engine_lacks_is_reported(docker_engine: object, tmp_path: Path) -> None:
    row = container_row(tmp_path, "posttrain-no-such-image:latest")
    assert row["ended"].startswith("not run: the engine does not have the image")
