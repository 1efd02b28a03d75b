"""The hardware in the first event of a step."""

import platform
from pathlib import Path

from posttrain.runtime.hardware_record import hardware_record


def test_processor_and_gpus_come_from_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Fast 9000\nmodel name\t: Fast 9000\n")
    for at in ("01", "02"):
        folder = tmp_path / "driver" / "nvidia" / "gpus" / at
        folder.mkdir(parents=True)
        (folder / "information").write_text("Model: \t\t NVIDIA H100\nIRQ: 1\n")
    machine = {"architecture": platform.machine(), "processor": "Fast 9000"}
    assert hardware_record(tmp_path, gpus=False) == machine
    assert hardware_record(tmp_path, gpus=True) == {**machine, "gpus": "NVIDIA H100"}


def test_a_machine_without_these_files(tmp_path: Path) -> None:
    assert hardware_record(tmp_path, gpus=True) == {"architecture": platform.machine()}
