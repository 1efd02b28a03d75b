"""Imported by every Python process whose PYTHONPATH names this folder: its clock jumps by days, back
and forth. The monotonic clock, which nobody can set, stays as it is."""

import os
import random
import time

_true, _true_ns = time.time, time.time_ns
_rng = random.Random(f"{os.environ['RECIPE_TEST_CLOCK']}/{os.getpid()}")
_DAYS = 86400.0
_offset = [0.0]


def _time() -> float:
    if _rng.random() < 0.01:
        _offset[0] = _rng.choice((0.0, -3600.0, 3600.0, -400 * _DAYS, 400 * _DAYS, _rng.uniform(-5, 5)))
    return _true() + _offset[0]


time.time = _time
time.time_ns = lambda: _true_ns() + int(_offset[0] * 1e9)
