"""Memory, disk and GPUs."""

from pathlib import Path

import pytest

from posttrain.runtime.ui import resource_usage
from posttrain.runtime.ui.resource_usage import GpuMonitor, disk_usage, load_text, memory_usage

SMI = """\
0, NVIDIA H200, 87, 12345, 143771, 41, 351.20
1, NVIDIA A100-SXM4-40GB, [N/A], [N/A], [N/A], 33, [N/A]
2, NVIDIA L4, [N/A], 0, 23034, 30, [N/A]
broken
"""


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A driver program that counts its calls."""
    program = tmp_path / "nvidia-smi"
    (tmp_path / "listed").write_text(SMI)
    program.write_text(f"#!/bin/sh\necho >> {tmp_path}/calls\ncat {tmp_path}/listed\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def test_gpus_are_those_of_the_driver(smi: Path):
    monitor = GpuMonitor()
    full, idle = monitor.usage()
    assert (full.name, full.note) == ("GPU 0", "NVIDIA H200 \u00b7 87% busy \u00b7 41 \u00b0C \u00b7 351 W")
    assert full.share == pytest.approx(12345 / 143771)
    assert (idle.name, idle.used, idle.note) == ("GPU 2", 0, "NVIDIA L4 \u00b7 30 \u00b0C")
    monitor.usage()
    assert (smi / "calls").read_text() == "\n"


def test_a_driver_that_hangs_or_fails_is_none(smi: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resource_usage, "_GPU_TIMEOUT", 0.2)
    (smi / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 30\n")
    assert GpuMonitor().usage() == ()
    (smi / "nvidia-smi").write_text("#!/bin/sh\necho no devices; exit 6\n")
    assert GpuMonitor().usage() == ()
    (smi / "nvidia-smi").unlink()
    assert GpuMonitor().usage() == ()


def test_the_memory_of_a_container_counts(tmp_path: Path):
    (tmp_path / "meminfo").write_text("MemTotal:  8000000 kB\nMemFree: 1 kB\nMemAvailable:  6000000 kB\n")
    machine = memory_usage(tmp_path / "meminfo", tmp_path)
    assert machine is not None
    assert machine.used == 2_000_000 * 1024
    (tmp_path / "memory.max").write_text("1048576000\n")
    (tmp_path / "memory.current").write_text("524288000\n")
    container = memory_usage(tmp_path / "meminfo", tmp_path)
    assert container is not None
    assert (container.used, container.total) == (524288000, 1048576000)
    assert memory_usage(tmp_path / "none", tmp_path) is None


def test_this_machine(tmp_path: Path):
    memory, disk = memory_usage(), disk_usage(tmp_path)
    assert memory is not None
    assert disk is not None
    assert 0 < memory.share < 1
    assert 0 < disk.share <= 1
    assert disk_usage(tmp_path / "none") is None
    assert load_text().startswith("load ")
