"""The GPU measurements: failures of parts, the check of the stack, the pages, and the wheels."""

import csv
import io
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from perf.cuda.__main__ import part_environment, run_limited
from perf.cuda.card import find_card
from perf.cuda.kernel_checks import CHECKS, Check
from perf.cuda.methods import loss_verdict
from perf.cuda.parts import OPTIONAL_PACKAGES, PARTS
from perf.cuda.recipes import RecipeRun, out_of_time
from perf.cuda.results import UNDER_WAY, PartResult, Report, read_results, record_failure, write_result
from perf.cuda.resume import first_difference
from perf.cuda.step_profile import category
from perf.cuda.versions import check_stack, installed_versions, locked_versions, stack_differences
from perf.cuda.wheel_files import Wheel, keep_libraries, pack_pieces
from perf.cuda.wheels import canonical, collect, missing_entries, read_names, requirements
from tests.perf.cuda_runs import run_parts
from tests.recipe_command import ROOT

from posttrain.runtime.process_tree import descendants
from posttrain.runtime.store.home import Home

HOST_PACKAGES = ROOT / "perf" / "cuda" / "host_packages.txt"


def test_every_part_is_below_ten_minutes() -> None:
    assert len({part.name for part in PARTS}) == 7
    assert all(part.seconds < 570 for part in PARTS)


@pytest.mark.slow
def test_later_parts_run_after_a_part_that_reaches_its_limit(tmp_path: Path) -> None:
    done = run_parts(tmp_path, "methods", "sharing", "--seconds", "1")
    assert done.returncode == 1
    assert "failed: methods, sharing" in done.stdout
    for name, found in read_results(tmp_path).items():
        assert "limit of time" in found.error, name
        assert "## Failed" in (tmp_path / f"{name}.md").read_text()


def test_a_recipe_that_is_stopped_names_the_time_as_the_cause(tmp_path: Path) -> None:
    """Not the last line of its log, which names the stage too."""
    run = RecipeRun(Home(tmp_path), tmp_path / "run", "sft 3/44 steps loss 1.5", out_of_time(20))
    assert run.failure("sft") == "`recipe run` was stopped after 20 s, its share of the time"


def test_a_process_that_does_not_end_is_killed() -> None:
    waits = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert "was killed" in run_limited(waits, dict(os.environ), 0.2)
    exits = [sys.executable, "-c", "raise SystemExit(7)"]
    assert run_limited(exits, dict(os.environ), 60) == "the process ended with status 7"


def test_processes_that_a_part_leaves_behind_are_killed() -> None:
    leaves = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)"
    program = (
        "import os, sys; from perf.cuda import __main__ as parts; sys.path += parts.SOURCES;"
        f"parts.adopt_orphans(); parts.run_limited([sys.executable, '-c', {leaves!r}], dict(os.environ), 60);"
        "parts.end_orphans()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert not Path(f"/proc/{int(done.stdout)}").exists()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_runs_on_after_the_measurements_are_killed(tmp_path: Path, how: int) -> None:
    """A process that runs on would use the card during the next command. The page does not look complete."""
    command = [sys.executable, "-m", "perf.cuda", "methods", "--dry", "--out", str(tmp_path / "out")]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    process = subprocess.Popen(command, env=environment, cwd=ROOT, start_new_session=True)
    deadline = time.monotonic() + 240
    while not [*scratch.glob("*/methods/home/work")]:  # `recipe run` has started
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    started = descendants(process.pid)
    assert len(started) >= 2
    process.send_signal(how)
    assert process.wait(60) != 0
    deadline = time.monotonic() + 30
    while alive := [pid for pid in started if Path(f"/proc/{pid}/exe").exists()]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)
    assert UNDER_WAY in (tmp_path / "out" / "methods.md").read_text()
    if how == signal.SIGTERM:
        assert [*scratch.glob("posttrain-cuda-*")] == []


def test_parts_whose_packages_cannot_be_installed_are_reported(tmp_path: Path) -> None:
    pieces = tmp_path / "pieces"
    pieces.mkdir()
    done = run_parts(tmp_path, "install", "memory", "--pieces", str(pieces))
    assert done.returncode == 1
    assert "failed: install, memory" in done.stdout
    for found in read_results(tmp_path).values():
        assert f"there are no wheels in {pieces}; `make cuda-wheels` collects them" in found.error
    (pieces / "trl-1.0-py3-none-any.whl").write_bytes(b"cut off")
    assert run_parts(tmp_path, "memory", "--pieces", str(pieces)).returncode == 1
    assert "trl" in read_results(tmp_path)["memory"].error


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    done = run_parts(tmp_path, "memroy")
    assert done.returncode == 1
    assert "there is no part `memroy`; the parts are install," in done.stderr


def test_a_part_whose_process_died_keeps_its_rows(tmp_path: Path) -> None:
    report = Report(tmp_path, "memory", "About it.", {"card": "a card"})
    assert UNDER_WAY in (tmp_path / "memory.md").read_text()
    table = report.table("Peaks", ["stage", "error"])
    report.add(table, "sft", 0.125)
    record_failure(tmp_path, "memory", "About it.", {}, "killed")
    found = read_results(tmp_path)["memory"]
    assert found.tables[0].rows == [["sft", "0.125"]]
    assert found.error == "killed"
    page = (tmp_path / "memory.md").read_text()
    assert "- card: a card" in page
    assert "| sft | 0.125 |" in page


def test_a_folder_holds_the_results_of_several_runs(tmp_path: Path) -> None:
    write_result(tmp_path, PartResult("memory", "", {}, error="first"))
    write_result(tmp_path, PartResult("speed", "", {}))
    write_result(tmp_path, PartResult("memory", "", {}))
    found = read_results(tmp_path)
    assert set(found) == {"memory", "speed"}
    assert found["memory"].error == ""
    # All parts together are within the eight files that a host may return.
    assert len(PARTS) + 1 <= 8


def test_a_different_stack_is_refused_or_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    locked = locked_versions()
    assert stack_differences(locked, locked) == []
    other = {**locked, "torch": "2.11.0+cu130"}
    del other["vllm"]
    assert stack_differences(other, locked) == [
        f"torch 2.11.0+cu130, locked {locked['torch']}",
        f"vllm is missing, locked {locked['vllm']}",
    ]
    monkeypatch.setattr("perf.cuda.versions.installed_versions", lambda: other)
    assert check_stack("host") == stack_differences(other, locked)
    with pytest.raises(SystemExit, match="STACK=host"):
        check_stack("locked")


def test_a_build_of_the_locked_version_is_the_locked_version() -> None:
    locked = locked_versions()
    assert stack_differences({**locked, "torch": f"{locked['torch']}+cpu"}, locked) == []
    assert installed_versions()["trl"] == locked["trl"]


def test_an_unknown_card_names_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA H200, 580.1, 143771'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    card = find_card()
    assert card is not None
    assert (card.device.name, card.driver, card.memory_mib) == ("H200-141GB", "580.1", 143771)
    program.write_text("#!/bin/sh\necho 'NVIDIA Z1, 580.1, 1024'\n")
    with pytest.raises(SystemExit, match=r"`NVIDIA Z1` is not in .*accelerators\.json"):
        find_card()


def test_losses_of_two_runs() -> None:
    assert loss_verdict([1.0, 0.5], [1.0, 0.5]) == ["identical", 0.0]
    assert loss_verdict([1.0, 0.505], [1.0, 0.5]) == ["within", pytest.approx(0.005)]
    assert loss_verdict([1.0, 0.8], [1.0, 0.5])[0] == "differs"
    assert loss_verdict([1.0], [1.0, 0.5])[0].startswith("other number")
    assert first_difference([3.0, 2.0, 1.0], [3.0, 2.0, 1.0]) is None
    assert first_difference([3.0, 2.0, 1.0], [3.0, 2.5, 1.5]) == 2


def test_kernels_have_categories() -> None:
    assert category("void flash_fwd_kernel<...>") == "attention"
    assert category("nvjet_tst_128x256_64x4_2x1_v_bz_TNT") == "matrix products"
    assert category("multi_tensor_apply_kernel<AdamFunctor>") == "optimizer"
    assert category("vectorized_elementwise_kernel<4, silu>") == "element-wise"
    assert category("ncclDevKernel") == "other"
    assert all(isinstance(check, Check) for check in CHECKS.values())


def test_parts_install_what_their_stages_need() -> None:
    needs = {part.name: set(part.optional_packages) for part in PARTS}
    assert needs["install"] == set(OPTIONAL_PACKAGES)
    # The strategy zero2 is that of DeepSpeed, which requires hjson.
    assert needs["sharing"] >= {"deepspeed", "hjson"}
    assert all("bitsandbytes" in needs[name] for name in ("methods", "memory", "methods_large"))  # QLoRA
    assert "liger-kernel" in needs["speed"]


def make_wheel(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    path = folder / f"{name}-1.0-py3-none-any.whl"
    record = f"{name}-1.0.dist-info/RECORD"
    lines = "".join(f"{file},sha256=x,{len(data)}\n" for file, data in files.items())
    with zipfile.ZipFile(path, "w") as target:
        for file, data in files.items():
            target.writestr(file, data)
        target.writestr(record, f"{lines}{record},,\n")
    return path


def test_a_wheel_keeps_the_library_of_one_cuda_version(tmp_path: Path) -> None:
    names = [f"b/libb_{kind}.so" for kind in ("cpu", "cuda128", "cuda130", "rocm70", "xpu2025")]
    wheel = make_wheel(tmp_path, "b", {name: os.urandom(5000) for name in [*names, "b/__init__.py"]})
    before = wheel.stat().st_size
    keep_libraries(wheel, "13.0")
    with zipfile.ZipFile(wheel) as found:
        kept = set(found.namelist())
        rows = csv.reader(io.StringIO(found.read("b-1.0.dist-info/RECORD").decode()))
        assert {row[0] for row in rows} == kept
    assert kept == {"b/libb_cpu.so", "b/libb_cuda130.so", "b/__init__.py", "b-1.0.dist-info/RECORD"}
    assert wheel.stat().st_size < before / 1.5
    with pytest.raises(SystemExit, match=r"no library for CUDA 12\.8"):
        keep_libraries(wheel, "12.8")


def test_pieces_stay_below_the_limit() -> None:
    wheels = [Wheel(str(size), Path(f"{size}.whl"), size) for size in (24, 43, 5, 3, 2, 1)]
    pieces = pack_pieces(wheels, 50)
    assert sorted(wheel.size for piece in pieces for wheel in piece) == [1, 2, 3, 5, 24, 43]
    assert [sum(wheel.size for wheel in piece) for piece in pieces] == [50, 28]
    with pytest.raises(SystemExit, match="more than a piece"):
        pack_pieces(wheels, 40)


def test_what_the_host_has_is_not_carried() -> None:
    lock = "torch==2.13.0 \\\n    --hash=sha256:a\nruamel-yaml==0.19.1 \\\n    --hash=sha256:b\n"
    assert list(missing_entries(lock, {"torch"})) == ["ruamel-yaml"]
    present = read_names(HOST_PACKAGES)
    assert {"torch", "transformers", "numpy"} <= present
    assert not {"trl", "datasets", "duckdb", "pydantic"} & present
    # A name that the lock no longer has is a leftover of this list.
    assert present <= {canonical(name) for name in locked_versions()}
    named = " ".join(requirements())
    assert "bitsandbytes" in named
    assert "vllm" not in named


def test_only_a_folder_of_pieces_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise SystemExit("no network")

    monkeypatch.setattr("perf.cuda.wheels.resolve", fail)
    old = tmp_path / "pieces" / "1" / "old-1.0-py3-none-any.whl"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"")
    with pytest.raises(SystemExit, match="no network"):
        collect(HOST_PACKAGES, tmp_path / "pieces", 50, "13.0")
    assert old.exists()
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(SystemExit, match=r"would be replaced, but has .*notes\.txt"):
        collect(HOST_PACKAGES, tmp_path, 50, "13.0")


def test_a_part_installs_its_own_packages(tmp_path: Path) -> None:
    carried = tmp_path / "pieces" / "1"
    carried.mkdir(parents=True)
    for name in ("everywhere", "bitsandbytes", "deepspeed"):
        folder = f"{name}-1.0.dist-info"
        tags = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()
        make_wheel(
            carried, name, {f"{name}.py": b"", f"{folder}/WHEEL": tags, f"{folder}/METADATA": metadata}
        )
    methods = next(part for part in PARTS if part.name == "methods")
    environment, error = part_environment(methods, tmp_path / "pieces", tmp_path / "site")
    assert error == ""
    assert str(tmp_path / "site") in environment["PYTHONPATH"].split(os.pathsep)
    assert {path.stem for path in (tmp_path / "site").glob("*.py")} == {"everywhere", "bitsandbytes"}
    assert set(methods.optional_packages) <= set(OPTIONAL_PACKAGES)
