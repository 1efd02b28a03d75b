"""The page that compares runs, from `recipe report RUN RUN...`."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.runtime.comparison.conftest import ComparisonRun, eval_rows, eval_step
from tests.runtime.report.conftest import Browser, make_run, make_step

from posttrain.cli.main import main
from posttrain.runtime.comparison.compared_run import ComparedRun, run_mark
from posttrain.runtime.comparison.comparison_curves import curves_section
from posttrain.runtime.report.run_record import StepEvents, StepRecord
from posttrain.runtime.report.step_sums import StepProgress
from posttrain.runtime.store.run_labels import RunLabels, write_labels

Build = Callable[..., ComparisonRun]
HOSTILE = "</script><script>console.error(1)</script><img src=x onerror=console.error(2)>"
OLD = {n: n % 3 != 0 for n in range(30)}
NEW = {n: n % 4 != 0 for n in range(30)}


def report(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, arguments)])


def compare(tmp_path: Path, *runs: ComparisonRun) -> str:
    page = tmp_path / "page.html"
    done = report(*(run.run for run in runs), "-o", page)
    assert done.exit_code == 0, done.output
    assert done.output == f"{page}\n"
    return page.read_text(encoding="utf-8")


def section(page: str, name: str) -> str:
    found = re.search(rf'<section id="{name}".*?(?=<section id=|<footer)', page, re.DOTALL)
    return found[0] if found else ""


def test_two_runs_of_two_homes_are_compared(build: Build, tmp_path: Path) -> None:
    base, other = build(OLD, lr=0.1), build(NEW, lr=0.2, loss=(2.0, 0.5))
    page = compare(tmp_path, base, other)
    assert "<h1>2 runs compared</h1>" in page
    metrics = section(page, "metrics")
    assert "<h3>check</h3>" in metrics
    assert "+0.067" in metrics
    changes = section(page, "changes")
    assert "30 paired completions, 5 right \u2192 wrong, 7 wrong \u2192 right." in changes
    assert changes.count("<article") == 12
    assert changes.index("right to wrong") < changes.index("wrong to right")
    assert "sft by step" not in page
    assert "at the end A 1, B 0.5" in section(page, "curves")
    recipes = section(page, "recipes")
    assert "stages.sft.params.learning_rate" in recipes
    assert "0.1" in recipes
    assert "<b>0.2</b>" in recipes


def test_runs_of_one_home_are_named_by_name_or_label(build: Build) -> None:
    base = build(OLD, home="one")
    other = build(NEW, home="one", id="later")
    write_labels(other.run, RunLabels(name="the better one"))
    done = report(base.run.name, "the better one", "--home", base.home.root)
    assert done.exit_code == 0, done.output
    assert Path(done.output.strip()) == other.run / "comparison.html"
    page = (other.run / "comparison.html").read_text(encoding="utf-8")
    assert "the better one" in page
    assert "only A has metrics of this stage" in page


def test_the_same_run_twice_is_misuse(build: Build) -> None:
    run = build(OLD)
    done = report(run.run, run.run.name, "--home", run.home.root)
    assert done.exit_code == 2
    assert "are the same run" in done.output
    assert report(run.run, "1999", "--home", run.home.root).exit_code == 2


def test_a_damaged_run_a_run_without_evals_and_another_recipe_are_shown(build: Build, tmp_path: Path) -> None:
    base, bare, damaged = build(OLD), build(), build(NEW)
    (damaged.run / "plan.json").write_text('{"steps": 3')
    (damaged.run / "journal.sqlite").write_bytes(b"SQLite format 3\0 damaged")
    other = ComparisonRun(tmp_path / "another")
    other.begin(eval_step("own"), name="unlike")
    other.evaluate(eval_step("own"), eval_rows(NEW))
    other.end()
    page = compare(tmp_path, base, bare, damaged, other)
    assert re.search("Runs of sums, .* and unlike", page)
    assert "C: The plan of this run is not readable" in page
    assert "C: the run" in section(page, "recipes")
    assert "reads `datasets.sums`, which is no step before it" in section(page, "recipes")
    assert "<h3>own</h3>" in section(page, "metrics")
    assert "only D has metrics of this stage" in page
    assert compare(tmp_path, damaged, base)


def test_twelve_runs_have_marks_lines_and_columns(build: Build, tmp_path: Path) -> None:
    runs = [build({n: n % (k + 2) != 0 for n in range(12)}, lr=0.1 * (k + 1)) for k in range(12)]
    page = compare(tmp_path, *runs)
    heads = re.findall(r'<th scope="col">([A-Z]+)</th>', section(page, "recipes"))
    assert heads == list("ABCDEFGHIJKL")
    assert section(page, "metrics").count(">baseline<") == 2
    loss = re.search(r'<figure class="chart overlay".*?</figure>', page, re.DOTALL)
    assert loss is not None
    lines = re.findall(
        r'<g class="(run-\d)"><path d="[^"]+" class="line"( stroke-dasharray="[^"]+")?', loss[0]
    )
    assert len(set(lines)) == 12


def test_a_curve_without_finite_values_at_its_end_says_so(build: Build, tmp_path: Path) -> None:
    nan = float("nan")
    good, gap = build(loss=[3.0, 2.0, 1.0, 0.5]), build(loss=[3.0, nan, 1.0, 0.5], lr=0.2)
    lost, never = build(loss=[3.0, 2.0, nan, nan], lr=0.3), build(loss=[nan] * 4, lr=0.4)
    curves = section(compare(tmp_path, good, gap, lost, never), "curves")
    assert "at the end A 0.5, B 0.5, C not a number, D not a number" in curves
    paths = re.findall(r'<path d="([^"]*)" class="line"', curves)
    assert [path.count("M") for path in paths] == [1, 2, 1, 0]
    assert curves.count(' class="lost"') == 1 + 2 + 4 + 1  # in the legend
    assert "7 non-finite values" in curves
    cells = re.findall(r'<td class="number value"><b>([^<]+)</b>(?:<span class="soft">([^<]+))?', curves)
    assert cells == [("0.5", ""), ("0.5", "+0.000"), ("not a number", ""), ("not a number", "")]


def test_the_curves_of_many_runs_are_bounded() -> None:
    """All curves of a page have 60,000 points together; a few short ones have all of theirs."""
    assert points_of(compared_curves(runs=2, metrics=2, steps=1500)) == [1500] * 4
    page = compared_curves(runs=12, metrics=10, steps=3000)
    counts = points_of(page)
    assert len(counts) == 12 * 10
    assert 400 < min(counts) <= max(counts) <= 500
    assert len(page) < 4_000_000


def compared_curves(runs: int, metrics: int, steps: int) -> str:
    found: list[ComparedRun] = []
    for place in range(runs):
        points = tuple((float(step), math.sin(step + place)) for step in range(steps))
        seconds = tuple((float(step), 2.0 * step) for step in range(steps))
        record = StepRecord(
            step=make_step("sft"),
            key="",
            state="done",
            events=StepEvents(
                metrics={f"reward/{n}": points for n in range(metrics)},
                progress=StepProgress(seconds=seconds, tokens=seconds),
            ),
        )
        run = make_run(record)
        labels = RunLabels(name=f"run {place}")
        found.append(ComparedRun(mark=run_mark(place), folder=Path(), record=run, labels=labels, secrets=()))
    return str(curves_section(found))


def points_of(page: str) -> list[int]:
    data = re.findall(r'<script type="application/json">(.*?)</script>', page)
    return [len(line["steps"]) for one in data for line in json.loads(one)["lines"]]


@pytest.mark.browser
def test_a_long_name_hides_no_column(browser: Browser, build: Build, tmp_path: Path) -> None:
    base, other = build(OLD), build(NEW)
    write_labels(other.run, RunLabels(name="a" * 200, note="b" * 300))
    compare(tmp_path, base, other)
    browser.look(width=1400)
    browser.open(tmp_path / "page.html")
    assert browser.value(
        "(({scrollWidth: all, clientWidth: shown}) => all <= shown)(document.querySelector('header .scroll'))"
    )


def test_marks_go_on_after_z() -> None:
    assert [run_mark(n) for n in (0, 25, 26, 51, 52, 701, 702)] == ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]


@pytest.mark.browser
def test_the_page_renders_in_silence_and_responds(browser: Browser, build: Build, tmp_path: Path) -> None:
    base, other = build(OLD, name="hostile"), build(NEW)
    rows = eval_rows(NEW)
    for row in rows:
        row["prompt"] += HOSTILE
        row["completion"] += HOSTILE
    third, fourth = build(rows=rows, data=HOSTILE), build(rows=[{**row, "node:right": True} for row in rows])
    write_labels(other.run, RunLabels(name=HOSTILE, tags=(HOSTILE,), note=HOSTILE))
    compare(tmp_path, base, other, third, fourth)
    path = tmp_path / "page.html"
    for width in (390, 1280):
        browser.look(width=width)
        browser.open(path)
        assert browser.complaints() == []
        assert browser.requests() == [path.as_uri()]
        assert browser.value("document.documentElement.scrollWidth") == width
    words = "document.querySelector('#curves .readout').textContent"
    assert browser.value(words) == "at the end A 1, B 1, C 1, D 1"
    browser.value("document.querySelector('.overlay > svg').focus()")
    browser.press("ArrowRight")
    assert browser.value(words) == "step 1: A 2, B 2, C 2, D 2"
    shown = "[...document.querySelectorAll('.sample')].filter((one) => one.checkVisibility()).length"
    assert browser.value(shown) == 8
    browser.value("""(() => { const box = document.querySelector("#sample-outcome");
        box.value = "right-to-wrong"; box.dispatchEvent(new Event("change")); })()""")
    assert browser.value(shown) == 5
    assert browser.complaints() == []
