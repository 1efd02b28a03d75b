import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.runtime.report.axis_scale import Scale, padded_range, tick_text, ticks
from posttrain.runtime.report.chart_lines import ChartLine
from posttrain.runtime.report.curve_data import MAX_POINTS, build_curve, downsample, moving_average
from posttrain.runtime.report.line_chart import StepMarkers, draw_chart

numbers = st.floats(allow_nan=False, allow_infinity=False)
modest = st.floats(-1e6, 1e6)


@given(st.lists(modest, min_size=1, max_size=2000), st.integers(4, 100))
def test_thinning_keeps_the_ends_and_the_extremes(values, most):
    kept = downsample(values, most)
    assert len(kept) <= most
    assert kept == sorted(set(kept))
    assert (kept[0], kept[-1]) == (0, len(values) - 1)
    assert {min(values), max(values)} <= {values[place] for place in kept}


def test_few_points_are_all_kept():
    assert downsample([3.0, 1.0, 2.0], 400) == [0, 1, 2]


@given(st.lists(modest, min_size=1, max_size=300))
def test_a_smoothed_curve_stays_within_its_values(values):
    found = moving_average(values)
    slack = 1e-6 * (1 + max(map(abs, values)))
    assert len(found) == len(values)
    assert min(values) - slack <= min(found)
    assert max(found) <= max(values) + slack


def test_a_smoothed_straight_line_is_itself_but_for_its_end():
    line = [2.0 * place for place in range(100)]
    assert moving_average(line)[:90] == pytest.approx(line[:90])


@given(numbers, numbers, st.integers(1, 10))
def test_ticks_are_round_rising_and_within(a, b, wanted):
    low, high = padded_range([a, b])
    found = ticks(low, high, wanted)
    assert found == sorted(set(found))
    slack = 1e-6 * (high - low)
    assert all(low - slack <= tick <= high + slack for tick in found)
    assert len(found) <= 3 * wanted + 2
    assert all(tick_text(tick) for tick in found)


def test_ticks_of_a_usual_range():
    assert ticks(0.0, 1.0, 5) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(1.0, 0.0, 5) == []


@given(st.lists(numbers, max_size=5))
def test_a_spread_is_never_empty(values):
    low, high = padded_range(values)
    assert low < high
    assert math.isfinite(high - low)
    assert math.isfinite(Scale(low, high, 0.0, 100.0)(low / 2 + high / 2))


def test_values_that_are_no_numbers_are_counted_and_break_the_line():
    points = tuple((float(s), math.nan if s in (3, 4) else 1.0 * s) for s in range(8))
    found = build_curve("loss", points)
    assert (found.nonfinite, found.total, len(found.x)) == ((3.0, 4.0), 8, 6)
    drawn = draw_chart([ChartLine(curve=found)], "loss", StepMarkers())
    line = drawn.split('<path d="')[1].split('"')[0]
    assert line.count("M") == 2
    assert drawn.count('class="lost"') == 2
    assert "2 non-finite values" in drawn


@pytest.mark.parametrize(
    "points",
    [
        ((5.0, 1.0),),
        ((0.0, 2.0), (1.0, 2.0)),
        ((0.0, -1e308), (1.0, 1e308)),
        ((0.0, 5e-324), (1.0, 0.0)),
        tuple((float(s), 1e300) for s in range(50)),
        ((1e15, 1.0), (1e15 + 1, 2.0)),
    ],
)
def test_odd_curves_are_drawn(points):
    found = build_curve("x", points)
    drawn = draw_chart([ChartLine(curve=found)], "x", StepMarkers(checkpoints=(0,), resumed=(1,), evals=(1,)))
    assert "nan" not in drawn
    assert "inf" not in drawn


def test_a_long_curve_is_cut_to_what_a_screen_shows():
    found = build_curve("loss", tuple((float(s), math.sin(s)) for s in range(100_000)))
    assert len(found.x) == len(found.y) == len(found.smooth) <= MAX_POINTS


def test_checkpoints_and_resumptions_are_marked():
    curve = build_curve("loss", tuple((float(s), 1.0 * s) for s in range(9)))
    drawn = draw_chart(
        [ChartLine(curve=curve)],
        "loss",
        StepMarkers(checkpoints=(4, 99), resumed=(2,), evals=(6,)),
    )
    assert "checkpoint at step 4" in drawn
    assert "step 99" not in drawn
    assert "resumed from step 2" in drawn
    assert "evaluation at step 6" in drawn
