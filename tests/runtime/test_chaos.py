"""A short form of the chaos harness: `make chaos N=500` is the long one."""

import time
from pathlib import Path

import pytest
from tests.conftest import need
from tests.runtime.chaos import Order, chaos
from tests.runtime.small_disk import can_mount

pytestmark = pytest.mark.slow


def test_runs_that_are_disturbed_end_like_one_that_was_not(tmp_path: Path) -> None:
    seed = int(time.time())
    print(f"seed {seed}")
    figures = chaos(Order(["kill", "kill", "kill", "hasty", "damage", "two", "clock"], 8, seed), tmp_path)
    assert not figures.lost, (seed, figures.lost)
    assert figures.faults >= 8


def test_a_full_disk_costs_nothing_but_time(tmp_path: Path) -> None:
    need("the right to mount", can_mount(tmp_path / "tried") or None, "run the tests as root")
    seed = int(time.time())
    print(f"seed {seed}")
    figures = chaos(Order(["full"], 2, seed), tmp_path)
    assert not figures.lost, (seed, figures.lost)
    assert figures.faults == 2
