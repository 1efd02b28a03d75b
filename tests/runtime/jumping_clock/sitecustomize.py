"""Makes the clock jump by days, back and forth, in every Python process with this folder in PYTHONPATH.

The monotonic clock, which no user can set, does not change.
"""

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
