"""The charts in a real browser: interactions change the page, and exports are what was measured."""

import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from tests.runtime.report import chart_page
from tests.runtime.report.chart_page import STEPS, ChartPage, allow_downloads, csv_columns, loss, tokens
from tests.runtime.report.conftest import RunBuilder

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def written(make, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("charts")
    return chart_page.write_page(RunBuilder(folder / "home"), make, folder / "report.html")


@pytest.fixture
def page(browser, written) -> ChartPage:
    found = ChartPage(browser, written).open()
    browser.value("localStorage.clear()")
    yield found
    assert browser.complaints() == []


def test_the_script_draws_what_the_page_had(page):
    """Without a change, drawing again moves nothing."""
    shown = ("ticks", "value_ticks", "points")
    metrics = ("loss", "kl", "entropy", "eval/loss")
    before = {(name, metric): getattr(page, name)(metric) for name in shown for metric in metrics}
    lines = {metric: page.points(metric, line=1) for metric in ("loss", "kl", "entropy")}
    page.choose("Smoothing", "0")
    assert page.ask("loss", "figure.querySelectorAll('path.raw').length") == 0
    page.choose("Smoothing", "12")
    for (name, metric), found in before.items():
        assert getattr(page, name)(metric) == (
            pytest.approx(found, abs=0.01) if name == "value_ticks" else found
        )
    assert {metric: page.points(metric, line=1) for metric in lines} == lines
    assert page.ask("entropy", "figure.querySelectorAll('.lost').length") == 2
    assert page.ask("loss", "figure.querySelectorAll('.checkpoint').length") == 2


def test_a_drag_zooms_all_charts_of_the_stage(page):
    before = {metric: (page.ticks(metric), page.points(metric)) for metric in ("loss", "kl")}
    reset = """document.querySelector('[data-stage="sft"] .reset')"""
    assert page.browser.value(f"{reset}.disabled") is True
    page.browser.drag(page.at("loss", 20), page.at("loss", 29))
    for metric in before:
        assert page.ticks(metric) == ["20", "22", "24", "26", "28"]
        # The points from 20 to 29, and one on each side that the frame clips.
        assert len(page.points(metric)) == 12
    assert page.value_ticks("loss") != page.value_ticks("kl")
    assert page.ticks("loss", "long") != page.ticks("loss")
    page.browser.value(f"{reset}.click()")
    assert {metric: (page.ticks(metric), page.points(metric)) for metric in before} == before


def test_keys_zoom_around_the_cursor_and_read_values(page):
    page.ask("loss", "figure.querySelector('svg').focus()")
    before = page.ticks("loss")
    for key in ("Home", "ArrowRight", "ArrowRight"):
        page.browser.press(key)
    assert page.readout("loss").startswith(f"step 3: {float(f'{loss(3):.4g}')} (smoothed ")
    assert page.readout("kl").startswith(f"step 3: {float(f'{math.sin(3):.4g}')} ")
    assert page.ask("loss", "figure.querySelector('svg').getAttribute('aria-valuetext')") == page.readout(
        "loss"
    )
    page.browser.press("+")
    page.browser.press("+")
    page.browser.press("+")
    # 2.75 to 13.875: an eighth of the distances from step 3 to both ends.
    assert page.ticks("loss") == ["4", "6", "8", "10", "12"]
    assert page.readout("loss").startswith("step 3:")
    # The cursor takes the range along: 11.125 steps, up to the last.
    page.browser.press("End")
    assert page.readout("loss").startswith("step 90:")
    assert page.ticks("loss") == ["80", "82", "84", "86", "88", "90"]
    page.browser.press("0")
    assert page.ticks("loss") == before
    # Tab leaves the chart, to its tools.
    page.browser.press("Tab")


def test_one_cursor_reads_all_charts_of_a_stage(page):
    before = page.readout("kl")
    page.browser.move(*page.at("loss", 60))
    seen = sum(map(tokens, range(1, 61)))
    for metric, value in (("loss", loss(60)), ("kl", math.sin(60)), ("eval/loss", loss(60) + 0.1)):
        text = page.readout(metric)
        assert text.startswith(f"step 60: {float(f'{value:.4g}')}")
        # 120 seconds of the first attempt: the pause before the second does not count.
        assert text.endswith(
            f"{seen / 1000:.4g}k tokens \u00b7 2 min \u00b7 checkpoint \u00b7 evaluation \u00b7 resumed"
        )
        assert page.ask(metric, "getComputedStyle(figure.querySelector('.cursor')).visibility") == "visible"
    assert "min" in page.readout("loss", "long").split()
    page.browser.move(2, 2)
    assert page.readout("kl") == before


def test_a_log_axis_has_powers_and_equal_ratios(page):
    before = page.value_ticks("loss")
    page.tool("loss", "Log")
    found = page.value_ticks("loss")
    assert set(found) == {"0.5", "1", "2"}
    double = found["0.5"] - found["1"]
    assert found["1"] - found["2"] == pytest.approx(double, abs=0.01)
    first, last = page.points("loss")[0][1], page.points("loss")[-1][1]
    assert last - first == pytest.approx(double * math.log2(loss(1) / loss(STEPS)), abs=0.2)
    assert page.ask("kl", "figure.querySelector('.tools button').disabled") is True
    page.tool("loss", "Log")
    assert page.value_ticks("loss") == pytest.approx(before, abs=0.01)


def test_the_x_axis_can_be_tokens_or_time(page):
    steps = [x for x, _ in page.points("loss")]
    page.choose("X axis", "tokens")
    assert page.ticks("loss") == ["20k", "40k", "60k", "80k", "100k"]
    sums = [sum(map(tokens, range(1, step + 1))) for step in range(1, STEPS + 1)]
    places = [46 + (count - sums[0]) / (sums[-1] - sums[0]) * 304 for count in sums]
    assert [x for x, _ in page.points("loss")] == pytest.approx(places, abs=0.06)
    page.choose("X axis", "seconds")
    assert page.ticks("loss") == ["1 min", "2 min", "3 min"]
    page.choose("X axis", "steps")
    assert [x for x, _ in page.points("loss")] == steps
    options = """[...document.querySelectorAll('[data-stage="long"] > .stage-tools option')]
        .map((one) => one.value)"""
    assert "tokens" not in page.browser.value(options)


def test_a_zoom_stays_where_it_is_on_another_axis(page):
    page.browser.drag(page.at("loss", 30), page.at("loss", 60))
    page.choose("X axis", "seconds")
    assert page.ticks("loss") == ["60 s", "80 s", "100 s", "120 s"]
    page.choose("X axis", "steps")
    assert page.ticks("loss")[0] == "30"


def test_steps_have_whole_ticks(page):
    assert page.ticks("loss", "short") == ["1", "2", "3"]
    page.browser.drag(page.at("loss", 1.9, "short", 1, 3), page.at("loss", 3, "short", 1, 3))
    assert page.ticks("loss", "short") == ["2", "3"]


@pytest.fixture
def downloads(browser, tmp_path):
    return allow_downloads(browser, tmp_path)


def test_a_csv_has_what_was_measured(page, downloads):
    page.choose("Smoothing", "25")
    page.tool("entropy", "CSV")
    found = csv_columns(downloads("sft-entropy.csv"))
    events = [e for e in chart_page.sft_events() if "entropy" in e.get("values", {})]
    assert found["step"] == [event["step"] for event in events]
    values = [event["values"]["entropy"] for event in events]
    assert found["value"] == [None if math.isnan(v) else pytest.approx(v, rel=1e-6) for v in values]
    kept = [n for n, value in enumerate(values) if not math.isnan(value)]
    # Half a second passed between step 60 and the end of the first attempt.
    seconds = [2.0 * event["step"] + (0.5 if event["step"] > 60 else 0) for event in events]
    assert [found["seconds"][n] for n in kept] == [seconds[n] for n in kept]
    sums = {step: sum(map(tokens, range(1, step + 1))) for step in range(1, STEPS + 1)}
    assert [found["tokens"][n] for n in kept] == [sums[events[n]["step"]] for n in kept]
    # The mean of 1 + 2 x 2 values: a 25th of 88 is 3, whose half is below the least reach.
    finite = [values[n] for n in kept]
    means = [found["smoothed"][n] for n in kept]
    assert means[0] == pytest.approx(finite[0], rel=1e-6)
    assert means[1] == pytest.approx(sum(finite[:3]) / 3, rel=1e-6)
    assert means[50] == pytest.approx(sum(finite[48:53]) / 5, rel=1e-6)
    assert means[-1] == pytest.approx(sum(finite[-3:]) / 3, rel=1e-6)


def test_an_svg_stands_alone(page, downloads):
    page.tool("loss", "SVG")
    root = ElementTree.fromstring(downloads("sft-loss.svg"))
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    assert root.find(f"{space}title").text.startswith("loss by step:")
    lines = [one for one in root.iter(f"{space}path") if "rgb(58, 92, 204)" in one.get("style", "")]
    assert lines
    assert max(len(one.get("d")) for one in lines) > 500
    assert "20" in [one.text for one in root.iter(f"{space}text")]
    assert not [one for one in root.iter() if one.get("class") or one.get("tabindex")]


def test_a_long_curve_shows_more_when_it_is_zoomed(page):
    """The page has more points than the line that is drawn at first."""
    assert len(page.points("loss", "long")) <= 400
    page.browser.drag(page.at("loss", 1000, "long", 0, 4999), page.at("loss", 2000, "long", 0, 4999))
    assert len(page.points("loss", "long")) > 380


def test_a_chart_is_pinned_until_it_is_unpinned(page):
    page.tool("kl", "Pin")
    pinned = """[...document.querySelectorAll(".pinned .chart")].map((one) => one.dataset.metric)"""
    top = "document.querySelector('#curves > .pinned').nextElementSibling.dataset.stage"
    assert page.browser.value(pinned) == ["kl"]
    assert page.browser.value(top) == "sft"
    assert page.browser.value("document.activeElement.textContent") == "Pin"
    page.open()
    assert page.browser.value(pinned) == ["kl"]
    assert page.browser.value("document.querySelector('.pinned .stage-name').checkVisibility()") is True
    page.browser.drag(page.at("loss", 20), page.at("loss", 29))
    ticks = "[...document.querySelectorAll('.pinned .tick')].map((one) => one.textContent)"
    assert "24" in page.browser.value(ticks)
    page.browser.value("document.querySelector('.pinned button[aria-pressed=true]').click()")
    assert page.browser.value("document.querySelector('.pinned')") is None
    assert page.ask("kl", "figure.isConnected") is True
    page.open()
    assert page.browser.value("document.querySelector('.pinned')") is None


def test_a_part_that_is_inserted_later_is_shown_as_before(page):
    source = page.path.read_text(encoding="utf-8")
    fragment = source[source.index('<section class="card stage" data-stage="sft"') :]
    fragment = fragment[: fragment.index("</section>") + len("</section>")]
    page.browser.drag(page.at("loss", 20), page.at("loss", 29))
    page.tool("loss", "Log")
    page.tool("kl", "Pin")
    page.browser.value(f"""(() => {{
        const box = document.createElement("div");
        box.innerHTML = {json.dumps(fragment)};
        const stage = box.firstElementChild;
        document.querySelector('[data-stage="sft"]').replaceWith(stage);
        posttrain.enhance(stage);
    }})()""")
    assert page.ticks("loss") == ["20", "22", "24", "26", "28"]
    assert page.ask("loss", "figure.querySelector('.tools button').getAttribute('aria-pressed')") == "true"
    assert page.browser.value("document.querySelectorAll('.pinned .chart').length") == 1
    assert (
        page.browser.value("""document.querySelectorAll('[data-stage="sft"] > .stage-tools').length""") == 1
    )
    page.browser.value("""document.querySelector('[data-stage="sft"] .reset').click()""")
    assert page.ticks("loss")[0] == "20"
    assert len(page.points("loss")) == STEPS


def test_a_table_has_every_visible_value(page):
    rows = "[...figure.querySelectorAll('.values tbody tr')].map((one) => one.textContent)"
    assert len(page.ask("loss", rows)) == 12
    page.ask("loss", "figure.querySelector('.values').open = true")
    page.browser.value("new Promise((done) => setTimeout(done, 50))")
    assert len(page.ask("loss", rows)) == STEPS
    assert page.ask("loss", "figure.querySelector('caption').textContent") == "90 of 90 values"
    page.browser.drag(page.at("loss", 20), page.at("loss", 29))
    found = page.ask("loss", rows)
    assert len(found) == 10
    assert found[0].startswith(f"20{float(f'{loss(20):.4g}')}")
