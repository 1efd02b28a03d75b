"""Long curves in bounded memory."""

import math
import random
import sys
from itertools import pairwise

import pytest

from posttrain.runtime.ui.curve_buckets import CurveBuckets


def build(points) -> CurveBuckets:
    found = CurveBuckets()
    for step, value in points:
        found.add(step, value)
    return found


def test_a_short_curve_is_exact():
    points = [(1, 2.0), (2, math.inf), (3, 1.0), (2, 5.0), (7, -1.0)]
    assert build(points).points() == ((1, 2.0), (2, 5.0), (3, 1.0), (7, -1.0))


@pytest.mark.parametrize("count", [2_001, 30_000])
def test_a_long_curve_keeps_its_extremes_and_its_end(count):
    draw = random.Random(count)
    points = [(step, draw.gauss(0, 1)) for step in range(count)]
    points[count // 3] = (count // 3, 99.0)
    points[count // 2] = (count // 2, -99.0)
    found = build(points).points()
    assert len(found) <= 2_100
    assert set(found) <= set(points)
    assert {(count // 3, 99.0), (count // 2, -99.0), points[-1]} <= set(found)
    assert found[0][0] < count / 300
    assert [step for step, _ in found] == sorted({step for step, _ in found})
    steps = [step for step, _ in found]
    assert max(b - a for a, b in pairwise(steps)) <= count / 100


def test_memory_does_not_grow_with_the_points():
    found = build((step, float(step % 97)) for step in range(60_000))
    assert sum(map(sys.getsizeof, found._buckets.values())) < 200_000
    assert not found._exact


def test_values_that_are_not_finite_are_kept_as_gaps():
    found = build((step, math.nan if step == 2_500 else 1.0) for step in range(5_000)).points()
    assert [step for step, value in found if math.isnan(value)] == [2_500]


def test_a_jump_of_the_steps_is_no_problem():
    found = build([(step, 1.0) for step in range(3_000)] + [(1e15, 2.0), (-1e15, 3.0)]).points()
    assert found[0] == (-1e15, 3.0)
    assert found[-1] == (1e15, 2.0)
    assert len(found) < 2_200


@pytest.mark.parametrize("count", [100, 10_000])
def test_a_curve_is_cut_where_training_resumed(count):
    cut = build((step, step) for step in range(count)).truncated(count // 2)
    assert cut.points()[-1][0] <= count // 2
    assert cut.points()[-1][0] >= count // 2 - count // 100
    cut.add(count // 2 + 1, 7.0)
    assert cut.points()[-1] == (count // 2 + 1, 7.0)
