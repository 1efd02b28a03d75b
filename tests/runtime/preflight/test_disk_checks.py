"""The disk space of a run before its first step."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import require_service
from tests.runtime.preflight.preflight_recipe import HEAD, MACHINE, check, compile_plan
from tests.runtime.resizable_tmpfs import can_mount, resizable_tmpfs, resize

from posttrain.runtime.preflight.run_preflight import run_preflight
from posttrain.runtime.store.home import Home

STAGES = """\
stages:
  tune: {train: sft, model: small, data: sums, params: {max_steps: 2, batch_size: 2, save_total_limit: 3}}
"""
# About 800 million parameters.
LARGE = HEAD.replace(
    "num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2",
    "num_hidden_layers: 16, hidden_size: 2048, num_attention_heads: 16",
)
_GB = 1 << 30


def with_free_space(monkeypatch: pytest.MonkeyPatch, count: float) -> None:
    def disk_usage(_: Any) -> Any:
        return SimpleNamespace(free=int(count))

    monkeypatch.setattr("posttrain.runtime.preflight.disk_space.shutil.disk_usage", disk_usage)


def test_the_estimate_counts_the_product_and_every_checkpoint(tmp_path: Path) -> None:
    plan = compile_plan(tmp_path, LARGE + STAGES)
    model, stage = plan.step("models.small").estimate, plan.step("tune").estimate
    assert model is not None
    assert stage is not None
    weights: Any = model["disk_gb"]
    assert stage["disk_gb"] == pytest.approx(weights)
    # Three checkpoints are kept and a fourth is written; Adam has two moments for each weight.
    assert stage["checkpoints_gb"] == pytest.approx(4 * 3 * weights, rel=1e-4)


def test_an_adapter_needs_little_space(tmp_path: Path) -> None:
    adapter = STAGES.replace("data: sums", "data: sums, adapter: {type: lora, r: 8}")
    plan = compile_plan(tmp_path, LARGE + adapter)
    estimate: Any = plan.step("tune").estimate
    assert 0 < estimate["disk_gb"] < 0.1
    assert 0 < estimate["checkpoints_gb"] < 1


def test_too_little_space_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = compile_plan(tmp_path, LARGE + STAGES)
    estimates: list[Any] = [step.estimate or {} for step in plan.steps]
    needed = sum(one.get("disk_gb", 0) + one.get("checkpoints_gb", 0) for one in estimates) * _GB
    with_free_space(monkeypatch, needed + _GB)
    assert check(tmp_path, LARGE + STAGES) == ()
    with_free_space(monkeypatch, needed - _GB)
    (found,) = check(tmp_path, LARGE + STAGES)
    assert (found.check, found.steps) == ("disk", ("tune",))
    assert f"the run needs about {needed / _GB:.1f} GB of disk space" in found.cause
    assert "GB checkpoints" in found.cause
    assert "`tune` keeps 3 checkpoints" in found.advice


def test_checkpoints_that_exist_are_not_counted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = compile_plan(tmp_path, LARGE + STAGES)
    estimates: list[Any] = [step.estimate or {} for step in plan.steps]
    needed = sum(one.get("disk_gb", 0) + one.get("checkpoints_gb", 0) for one in estimates) * _GB
    with_free_space(monkeypatch, needed - _GB)
    written = Home(tmp_path / "home").workdir(plan.step("tune").key) / "checkpoints" / "checkpoint-1"
    written.mkdir(parents=True)
    with (written / "optimizer.pt").open("wb") as file:
        file.truncate(2 * _GB)  # sparse
    assert check(tmp_path, LARGE + STAGES) == ()


def test_files_of_the_user_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.txt").write_bytes(b"line\n" * (1 << 20))
    recipe = HEAD.replace("{arithmetic: {digits: 1, count: 40}}", "{text: {path: rows.txt}}")
    recipe = f"{recipe}stages:\n  list: {{script: [ls], inputs: {{rows: sums}}}}\n"
    with_free_space(monkeypatch, 12 << 20)
    assert check(tmp_path, recipe) == ()
    with_free_space(monkeypatch, 8 << 20)
    (found,) = check(tmp_path, recipe)
    assert found.steps == ("datasets.sums",)
    assert "5.0 MB product + 5.0 MB copies of input files" in found.cause


def test_a_full_file_system(tmp_path: Path) -> None:
    require_service("a user who may mount a tmpfs", can_mount(tmp_path / "probe") or None, "run as root")
    plan = compile_plan(tmp_path / "recipe", HEAD + STAGES)
    with resizable_tmpfs(tmp_path / "home", wanted=True):
        home = Home(tmp_path / "home")
        assert run_preflight(plan, home, tmp_path / "recipe", None, MACHINE) == ()
        resize(home.root, 1 << 18)
        (found,) = run_preflight(plan, home, tmp_path / "recipe", None, MACHINE)
        assert "and 0.2 MB is free" in found.cause


def test_the_cache_of_built_training_rows_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = compile_plan(tmp_path, LARGE + STAGES)
    estimates: list[Any] = [step.estimate or {} for step in plan.steps]
    needed = sum(one.get("disk_gb", 0) + one.get("checkpoints_gb", 0) for one in estimates) * _GB
    home = Home(tmp_path / "home")
    rows = home.store.root / plan.step("datasets.sums").key / "files" / "all.parquet"
    rows.parent.mkdir(parents=True)
    with rows.open("wb") as file:
        file.truncate(_GB)  # sparse
    with_free_space(monkeypatch, needed + 6 * _GB)
    (found,) = check(tmp_path, LARGE + STAGES)
    assert "GB training rows" in found.cause
    cached = home.row_cache / "key" / "part-00000.arrow"
    cached.parent.mkdir(parents=True)
    with cached.open("wb") as file:
        file.truncate(7 * _GB)
    assert check(tmp_path, LARGE + STAGES) == ()


def test_a_folder_that_is_no_earlier_export(tmp_path: Path) -> None:
    push = STAGES + "  out: {export: tune, push: {folder: taken}}\n"
    assert check(tmp_path, HEAD + push) == ()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    (found,) = check(tmp_path, HEAD + push)
    assert found.cause.endswith("taken exists and is not an earlier export")
