"""A short form of the chaos harness: `make chaos N=500` is the long one."""

import time
from pathlib import Path

import pytest
from tests.runtime.chaos import chaos

pytestmark = pytest.mark.slow


def test_runs_that_are_killed_end_like_one_that_was_not(tmp_path: Path) -> None:
    seed = int(time.time())
    print(f"seed {seed}")
    figures = chaos(6, seed, tmp_path)
    assert not figures.lost, (seed, figures.lost)
    assert figures.kills >= 6
