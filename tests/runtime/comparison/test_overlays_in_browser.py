"""The overlaid charts of a comparison in a real browser: the features of the charts of a single run."""

import math

import pytest
from tests.runtime.comparison.overlay_page import RUNS, STEPS, shown
from tests.runtime.report.chart_page import ChartPage

pytestmark = pytest.mark.browser

A, B, C, D, E, F, G, H = range(len(RUNS))


def values_at(step: int, *marks: str) -> str:
    return ", ".join(f"{mark} {shown(RUNS[mark].loss(step))}" for mark in marks)


def test_the_script_draws_what_the_page_had(page: ChartPage) -> None:
    """Without a change, drawing again moves nothing: lines, colors, dashes, dots and crosses."""
    parts = "[...figure.querySelectorAll('.drawn > svg > g')].map((g) => [g.getAttribute('class'), {}])"
    of_line = """[...g.children].map((one) => [one.tagName, one.getAttribute("class"), one.getAttribute("d"),
        one.getAttribute("stroke-dasharray"), one.textContent])"""
    drawn = parts.replace("{}", of_line)
    metrics = ("loss", "kl", "entropy")
    before = {metric: (page.ticks(metric), page.ask(metric, drawn)) for metric in metrics}
    ends = {metric: page.value_ticks(metric) for metric in metrics}
    page.choose("Smoothing", "0")
    assert page.ask("kl", drawn) != before["kl"][1]
    page.choose("Smoothing", "12")
    assert {metric: (page.ticks(metric), page.ask(metric, drawn)) for metric in metrics} == before
    for metric, found in ends.items():
        assert page.value_ticks(metric) == pytest.approx(found, abs=0.01)
    loss = before["loss"][1]
    assert [name for name, _ in loss] == [
        "run-0",
        "run-1",
        "run-2",
        "run-3",
        "run-4",
        "run-5",
        "run-0",
        "run-1",
    ]
    assert [line[0][3] for _, line in loss] == [None] * 6 + ["5 3"] * 2
    crosses = [[one[4] for one in line if one[1] == "lost"] for _, line in loss]
    assert crosses[C] == [f"C: non-finite value at step {step}" for step in (40, 41, 90)]
    assert [len(one) for one in crosses] == [0, 0, 3, 0, 0, 5, 0, 0]
    assert [one[0] for one in loss[D][1]] == ["path", "circle"]
    assert loss[C][1][0][2].count("M") == 2


def test_a_drag_zooms_every_line_of_all_charts(page: ChartPage) -> None:
    before = page.ticks("loss")
    tall = page.value_ticks("loss")
    page.browser.drag(page.at("loss", 20), page.at("loss", 29))
    for metric in ("loss", "kl", "entropy"):
        assert page.ticks(metric) == ["20", "22", "24", "26", "28"]
    # The points from 20 to 29, and one on each side that the frame clips.
    assert [len(page.points("loss", line=line)) for line in (A, B, E)] == [12, 12, 7]
    # Of C, D and G only the neighbors of the range are left.
    assert [len(page.points("loss", line=line)) for line in (C, D, G)] == [1, 1, 2]
    assert page.value_ticks("loss") != tall
    page.browser.value("""document.querySelector('[data-stage="sft"] .reset').click()""")
    assert page.ticks("loss") == before


def test_keys_read_the_value_of_each_run_and_zoom(page: ChartPage) -> None:
    page.ask("loss", "figure.querySelector('svg').focus()")
    assert page.readout("loss").startswith("at the end A 0.3494, B 0.4848, C not a number, D 0.6518, ")
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.browser.press(key)
    assert page.readout("loss") == f"step 4: {values_at(4, 'A', 'B', 'E', 'F', 'G', 'H')}".replace(
        "F nan", "F not finite"
    )
    assert page.readout("kl") == f"step 4: A {shown(math.sin(4))}, B {shown(math.sin(4))}"
    slider = "[...figure.querySelector('svg').attributes].map((one) => [one.name, one.value])"
    found = dict(page.ask("loss", slider))
    assert found["role"] == "slider"
    assert (found["aria-valuenow"], found["aria-valuemax"]) == ("3", str(STEPS - 1))
    assert found["aria-valuetext"] == page.readout("loss")
    for _ in range(3):
        page.browser.press("+")
    # 3.625 to 14.75: an eighth of the distances from step 4 to both ends.
    assert page.ticks("loss") == ["4", "6", "8", "10", "12", "14"]
    page.browser.press("End")
    assert page.ticks("loss") == ["80", "82", "84", "86", "88", "90"]
    assert page.readout("loss") == f"step 90: {values_at(90, 'A')}, C not finite, {values_at(90, 'E')}"
    page.browser.press("0")
    assert page.ticks("loss") == ["20", "40", "60", "80"]


def test_the_cursor_has_a_dot_on_each_line_that_goes_through_it(page: ChartPage) -> None:
    page.browser.move(*page.at("loss", 30))
    assert page.readout("loss") == f"step 30: {values_at(30, 'A', 'B', 'D', 'E')}"
    dots = """[...figure.querySelectorAll('.cursor circle')].map((one) =>
        [one.getAttribute("class"), getComputedStyle(one).visibility, getComputedStyle(one).fill])"""
    found = page.ask("loss", dots)
    assert [n for n, (_, visible, _) in enumerate(found) if visible == "visible"] == [A, B, D, E]
    strokes = "[...figure.querySelectorAll('path.line')].map((one) => getComputedStyle(one).stroke)"
    assert [fill for *_, fill in found] == page.ask("loss", strokes)
    assert len({fill for *_, fill in found}) == 6
    place = """(([line, dot]) => [line.getAttribute("x1"), dot.getAttribute("cx"), dot.getAttribute("cy")]
        .map(Number))([...figure.querySelector('.cursor').children])"""
    x, at, height = page.ask("loss", place)
    assert x == at
    assert [round(x, 1), round(height, 1)] == page.points("loss", line=A)[29]
    page.browser.move(2, 2)
    assert page.readout("loss").startswith("at the end")


def test_a_log_axis_has_equal_ratios_for_all_runs(page: ChartPage) -> None:
    page.choose("Smoothing", "0")
    page.tool("loss", "Log")
    ticks = page.value_ticks("loss")
    assert {"0.5", "1", "2"} <= set(ticks)
    double = ticks["0.5"] - ticks["1"]
    assert ticks["1"] - ticks["2"] == pytest.approx(double, abs=0.01)
    first = {mark: page.points("loss", line=line)[0][1] for line, mark in enumerate("AB")}
    assert first["B"] - first["A"] == pytest.approx(double * math.log2(1 / 0.8), abs=0.2)
    assert page.ask("kl", "figure.querySelector('.tools button').disabled") is True


def test_the_lines_are_the_values_without_smoothing(page: ChartPage) -> None:
    smooth = page.points("kl", line=A)
    page.choose("Smoothing", "0")
    ticks = page.value_ticks("kl")
    unit = (ticks["-1"] - ticks["1"]) / 2
    heights = [y for _, y in page.points("kl", line=A)]
    assert heights == pytest.approx([ticks["0"] - unit * math.sin(step) for step in range(1, 91)], abs=0.06)
    assert smooth != page.points("kl", line=A)
    words = "document.querySelector('.smoothing').textContent"
    assert page.browser.value(words) == "The line: the values."
    page.choose("Smoothing", "3")
    assert "33 % of the curve" in page.browser.value(words)


def test_on_another_axis_each_run_has_its_own_places(page: ChartPage) -> None:
    page.choose("X axis", "tokens")
    assert page.ticks("loss") == ["20k", "40k", "60k", "80k", "100k", "120k"]
    low, high = 1000, 120_000
    for line, mark in ((A, "A"), (B, "B"), (C, "C")):
        run = RUNS[mark]
        counts = [n * run.tokens for n, step in enumerate(run.steps, 1) if step in run.losses()]
        places = [46 + (count - low) / (high - low) * 304 for count in counts]
        assert [x for x, _ in page.points("loss", line=line)] == pytest.approx(places, abs=0.06)
    page.browser.move(*page.at("loss", 30_000, low=low, high=high))
    # Step 30 of A, 15 of B, 60 of C, 60 of E.
    expected = ", ".join(
        f"{m} {shown(RUNS[m].loss(s))}" for m, s in (("A", 30), ("B", 15), ("C", 60), ("E", 60))
    )
    assert page.readout("loss") == f"30k tokens: {expected}"
    page.choose("X axis", "seconds")
    assert page.ticks("loss") == ["1 min", "2 min", "3 min"]


def test_a_zoom_keeps_its_runs_on_another_axis(page: ChartPage) -> None:
    page.browser.drag(page.at("loss", 1), page.at("loss", 20))
    steps = page.ticks("loss")
    assert steps == ["5", "10", "15", "20"]
    page.choose("X axis", "tokens")
    # Up to the tokens of B at step 20: it has twice as many as the others.
    assert page.ticks("loss") == ["10k", "20k", "30k", "40k"]
    page.choose("X axis", "steps")
    assert page.ticks("loss") == steps
    page.browser.value("""document.querySelector('[data-stage="sft"] .reset').click()""")
    page.choose("X axis", "tokens")
    page.browser.drag(
        page.at("loss", 61_000, low=1000, high=120_000), page.at("loss", 120_000, low=1000, high=120_000)
    )
    assert page.ticks("loss") == ["80k", "100k", "120k"]
    page.choose("X axis", "steps")
    # B was there after 30.5 steps, and A ended there.
    assert page.ticks("loss") == ["40", "50", "60", "70", "80", "90"]
