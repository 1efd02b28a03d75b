"""A short chaos test; `make chaos N=500` runs the long one."""

import time
from pathlib import Path

import pytest
from tests.conftest import require_service
from tests.runtime.chaos import ChaosOptions, run_chaos
from tests.runtime.resizable_tmpfs import can_mount

pytestmark = pytest.mark.slow


def test_faulted_runs_match_an_undisturbed_run(tmp_path: Path) -> None:
    seed = int(time.time())
    print(f"seed {seed}")
    result = run_chaos(
        ChaosOptions(["kill", "kill", "kill", "restart", "damage", "concurrent", "clock"], 8, seed), tmp_path
    )
    assert not result.violations, (seed, result.violations)
    assert result.faults >= 8


def test_a_full_disk_costs_nothing_but_time(tmp_path: Path) -> None:
    require_service("the right to mount", can_mount(tmp_path / "tried") or None, "run the tests as root")
    seed = int(time.time())
    print(f"seed {seed}")
    result = run_chaos(ChaosOptions(["disk_full"], 2, seed), tmp_path)
    assert not result.violations, (seed, result.violations)
    assert result.faults == 2
