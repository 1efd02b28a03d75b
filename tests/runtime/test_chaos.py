"""A short form of the chaos harness: `make chaos N=500` is the long one."""

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
    figures = run_chaos(
        ChaosOptions(["kill", "kill", "kill", "hasty", "damage", "two", "clock"], 8, seed), tmp_path
    )
    assert not figures.violations, (seed, figures.violations)
    assert figures.faults >= 8


def test_a_full_disk_costs_nothing_but_time(tmp_path: Path) -> None:
    require_service("the right to mount", can_mount(tmp_path / "tried") or None, "run the tests as root")
    seed = int(time.time())
    print(f"seed {seed}")
    figures = run_chaos(ChaosOptions(["full"], 2, seed), tmp_path)
    assert not figures.violations, (seed, figures.violations)
    assert figures.faults == 2
