"""The comparison of runs that are checked in the list."""

import json
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from tests.recipe_command import wait_until
from tests.runtime.comparison.conftest import ComparisonRun, build
from tests.runtime.report.axe_check import all_violations, install_axe, load_axe
from tests.runtime.report.conftest import Browser
from tests.runtime.ui.conftest import Client
from tests.runtime.ui.test_ui_in_browser import see, visit

__all__ = ["build"]
RIGHT, WRONG = dict.fromkeys(range(8), True), dict.fromkeys(range(8), False)


def query(*runs: str) -> str:
    """The address of a comparison, as the form of the list sends it."""
    return "compare/?" + urlencode([("run", f"0/{quote(name, safe='')}") for name in runs])


@pytest.fixture
def pair(build) -> list[ComparisonRun]:
    """Two runs of one home, with other learning rates and outcomes."""
    return [build(RIGHT, home="a", data="one"), build(WRONG, home="a", data="two", lr=0.2, loss=(3.0, 2.0))]


def test_runs_are_compared_with_the_oldest(serve, pair):
    client = serve(pair[0].home.root)
    page = client.get(query(*(one.run.name for one in reversed(pair))))
    for section in ("metrics", "curves", "recipes"):
        assert f'id="{section}"' in page
    assert "learning_rate" in page
    assert page.index(pair[0].run.name) < page.index(pair[1].run.name)
    for one in pair:
        assert f'href="../run/0/{one.run.name}/"' in page


def test_runs_of_several_homes_and_one_that_proceeds(serve, build, run_builder, make):
    finished = build(RIGHT, home="other")
    run_builder.begin(make.step("sft"))
    run_builder.work("sft", [("metrics", {"step": 1, "values": {"loss": 0.5}})])
    client = serve(finished.home.root, run_builder.home.root)
    fields = [("run", f"0/{finished.run.name}"), ("run", f"1/{run_builder.run.name}")]
    page = client.get(f"compare/?{urlencode(fields)}")
    assert "2 runs compared" in page
    assert "running" in page


@pytest.mark.parametrize("count", [0, 1, 13])
def test_too_few_and_too_many_runs_are_named(serve, run_builder, make, count):
    names = []
    for _ in range(count):
        run_builder.begin(make.step("sft"))
        run_builder.end()
        names.append(run_builder.run.name)
    client = serve(run_builder.home.root)
    shown = len(set(names))
    assert f"Check 2 to 12 runs in the list to compare them; {shown} were checked." in client.get(
        query(*names)
    )


def test_a_run_that_is_checked_twice_counts_once(serve, pair):
    client = serve(pair[0].home.root)
    name = pair[0].run.name
    assert "1 were checked" in client.get(query(name, name))


@pytest.mark.parametrize("field", ["0/none", "7/{run}", "x", "0/..", "0/%00", "/", "0/{run}/events"])
def test_a_run_that_is_not_there_is_not_found(serve, pair, field):
    client = serve(pair[0].home.root)
    fields = [("run", f"0/{pair[0].run.name}"), ("run", field.format(run=pair[0].run.name))]
    assert client.send(f"compare/?{urlencode(fields)}")[0].status == 404


def test_damaged_runs_become_messages(serve, pair):
    (pair[1].run / "plan.json").write_text("{")
    (pair[0].run / "journal.sqlite").write_bytes(b"no database")
    client = serve(pair[0].home.root)
    page = client.get(query(*(one.run.name for one in pair)))
    assert "The plan of this run is not readable" in page
    assert "B: the run" in page


@pytest.mark.browser
def test_the_boxes_of_the_list_choose_the_runs(browser: Browser, serve, pair, tmp_path: Path):
    """They stay checked when the list changes. axe finds no violation in the comparison."""
    script = install_axe(tmp_path / "npm")
    client: Client = serve(pair[0].home.root)
    visit(browser, client.server.url)
    see(browser, "document.getElementById('connection').textContent === 'live'", "the stream")
    browser.value("document.querySelectorAll('input[name=run]').forEach((box) => box.click())")
    third = ComparisonRun(pair[0].home.root).build(RIGHT, data="three")
    see(browser, f"document.body.textContent.includes('{third.run.name}')", "the new run")
    checked = "[...document.querySelectorAll('input[name=run]')].map((box) => box.checked)"
    assert browser.value(checked) == [False, True, True]
    load_axe(browser, script)
    assert all_violations(browser) == {}
    browser.value("document.querySelector('#compare button').click()")
    wait_until(lambda: "compared" in str(browser.value("document.title")), "the comparison", None, seconds=60)
    see(browser, "document.querySelectorAll('.chart .toolbar, .stage[data-stage]').length > 0", "the charts")
    assert browser.value("document.querySelectorAll('.card table.runs tbody tr').length") == 2
    load_axe(browser, script)
    found = all_violations(browser)
    assert found == {}, json.dumps(found, indent=1)
    assert browser.complaints() == []
