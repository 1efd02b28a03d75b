"""Overlaid charts of a comparison: exports, tables, pins, accessibility, and the page without scripts."""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runtime.comparison.overlay_page import NAMES, RUNS, STEPS, shown
from tests.runtime.report.axe_check import all_violations, install_axe, load_axe
from tests.runtime.report.chart_page import ChartPage, allow_downloads, csv_columns
from tests.runtime.report.conftest import Browser

pytestmark = pytest.mark.browser

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def downloads(browser: Browser, tmp_path: Path) -> Callable[[str], str]:
    return allow_downloads(browser, tmp_path)


def table_rows(page: ChartPage) -> list[list[str]]:
    return page.ask(
        "loss",
        """[...figure.querySelectorAll('.values tbody tr')]
            .map((row) => [...row.cells].map((one) => one.textContent))""",
    )


def test_a_csv_has_a_column_for_each_run(page: ChartPage, downloads: Callable[[str], str]) -> None:
    page.browser.drag(page.at("loss", 20), page.at("loss", 29))
    page.tool("loss", "CSV")
    found = csv_columns(downloads("sft-loss.csv"))
    assert list(found) == ["step", *(f"{mark} {NAMES.get(mark, f'run {mark}')}" for mark in RUNS)]
    assert found["step"] == list(range(1, STEPS + 1))
    for (name, column), run in zip(list(found.items())[1:], RUNS.values(), strict=True):
        values = run.losses()
        assert [step for step, value in enumerate(column, 1) if value is not None] == list(values), name
        assert [value for value in column if value is not None] == pytest.approx(
            list(values.values()), rel=1e-6
        )
    page.tool("entropy", "CSV")
    assert list(csv_columns(downloads("sft-entropy.csv"))) == ["step", "A run A"]


def test_an_svg_has_a_legend_of_the_runs(page: ChartPage, downloads: Callable[[str], str]) -> None:
    before = page.ask("loss", "figure.querySelectorAll('svg *').length")
    page.tool("loss", "SVG")
    root = ElementTree.fromstring(downloads("sft-loss.svg"))
    assert page.ask("loss", "figure.querySelectorAll('svg *').length") == before
    keys = list(root.findall(f"{SVG}g")[-1])
    texts = [key.findtext(f"{SVG}text") or "" for key in keys]
    assert texts[:2] == ["A run A", f"B {NAMES['B']}"]
    assert texts[-1].endswith("\u2026")
    assert len(texts) == len(RUNS)
    strokes = page.ask(
        "loss", "[...figure.querySelectorAll('path.line')].map((one) => getComputedStyle(one).stroke)"
    )
    styles = [(key.find(f"{SVG}path").get("style") or "") for key in keys]
    assert all(f"stroke: {stroke}" in style for stroke, style in zip(strokes, styles, strict=True))
    assert ["stroke-dasharray: none" in style for style in styles] == [True] * 6 + [False] * 2
    low = max(float(key.find(f"{SVG}text").get("y")) for key in keys)
    _, _, width, height = map(float, root.get("viewBox").split())
    assert low < height
    assert float(root.get("height")) / float(root.get("width")) == pytest.approx(height / width)
    assert not [one for one in root.iter() if one.get("class") or one.get("tabindex")]


def test_an_overlay_is_pinned_until_it_is_unpinned(page: ChartPage) -> None:
    page.tool("kl", "Pin")
    pinned = "[...document.querySelectorAll('#curves > .pinned .chart')].map((one) => one.dataset.metric)"
    assert page.browser.value(pinned) == ["kl"]
    page.open()
    assert page.browser.value(pinned) == ["kl"]
    page.browser.drag(page.at("loss", 20), page.at("loss", 29))
    ticks = "[...document.querySelectorAll('.pinned .tick')].map((one) => one.textContent)"
    assert "24" in page.browser.value(ticks)
    page.browser.value("document.querySelector('.pinned button[aria-pressed=true]').click()")
    assert page.browser.value(pinned) == []
    assert page.ask("kl", "figure.isConnected") is True


def test_a_table_has_the_runs_as_columns(page: ChartPage) -> None:
    found = table_rows(page)
    assert len(found) == 12
    assert (found[0][0], found[-1][0]) == ("1", "90")
    page.ask("loss", "figure.querySelector('.values').open = true")
    page.browser.value("new Promise((done) => setTimeout(done, 50))")
    assert page.ask("loss", "figure.querySelector('caption').textContent") == "90 of 90 steps"
    heads = "[...figure.querySelectorAll('.values thead th')].map((one) => one.textContent)"
    assert page.ask("loss", heads) == ["Step", *RUNS]
    every = table_rows(page)
    assert [row for row in every if row in found] == found
    assert every[39] == [
        "40",
        *(shown(run.losses()[40]) if 40 in run.losses() else "\u2013" for run in RUNS.values()),
    ]
    page.browser.drag(page.at("loss", 20), page.at("loss", 29))
    assert [row[0] for row in table_rows(page)] == [str(step) for step in range(20, 30)]


def test_without_scripts_the_lines_and_a_table_are_there(browser: Browser, overlays: Path) -> None:
    browser.look(script=False)
    browser.open(overlays)
    found = browser.call("DOM.getDocument")["root"]["nodeId"]
    text = browser.call("DOM.getOuterHTML", nodeId=found)["outerHTML"]
    browser.look()
    assert text.count('class="chart overlay"') == 4
    assert "at the end A 0.3494, B 0.4848" in text


def test_axe_finds_no_violation(
    browser: Browser, overlays: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    browser.look(width=1400)
    browser.open(overlays)
    load_axe(browser, install_axe(tmp_path_factory.mktemp("npm")))
    browser.value("document.querySelector('.chart > .values').open = true")
    browser.value("document.querySelector('.chart .tools button:nth-child(2)').click()")
    found = all_violations(browser)
    assert found == {}, json.dumps(found, indent=1)
    assert browser.value("document.documentElement.scrollWidth") == 400
    browser.value("localStorage.clear()")
    assert browser.complaints() == []
