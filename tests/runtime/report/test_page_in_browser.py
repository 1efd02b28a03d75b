"""The page in a real browser: it renders, responds, loads nothing, and logs nothing to the console."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.runtime.report.eval_facts import make_eval_facts, scored_rows

from posttrain.runtime.report.page import render_page
from posttrain.runtime.report.run_record import StepRecord

pytestmark = pytest.mark.browser

HOSTILE = "</script><script>console.error(1)</script><img src=x onerror=console.error(2)>\x00\u202e"


@pytest.fixture
def report(run_builder, make, tmp_path):
    """The report of a run with hostile texts."""
    params = {"reward": make.reward}
    run_builder.begin(
        make.step("base", "model"),
        make.step("grpo", inputs=("base",), params=params, estimate={"seconds": 2, "memory_gb": 0.5}),
        make.step("check", "eval", inputs=("grpo",), params={**params, "metrics": make.metrics}),
        make.step("ship", "gate", inputs=("check",)),
        make.step("export", "export", inputs=("grpo",), gates=("ship",)),
        make.step("several", "eval", inputs=("base", "grpo")),
        make.step("left", "script"),
    )
    run_builder.done("base", parameters=10)
    metrics = [
        ("metrics", {"step": s, "values": {"loss": 2 / s, "reward/right": math.sin(s), HOSTILE: s}})
        for s in range(1, 61)
    ]
    others = [("warning", {"message": HOSTILE, "advice": HOSTILE}), ("checkpoint", {"step": 30})]
    run_builder.done("grpo", metrics + others)
    samples = [
        {
            "step": 0,
            "prompt": f"{n}+1=",
            "completion": f"\n  {HOSTILE}\n{n}",
            "values": {"right": 3.0 if n % 2 else -1.0},
        }
        for n in range(20)
    ]
    rate = {
        "kind": "rate",
        "node": "right",
        "value": 0.5,
        "low": 0.3,
        "high": 0.7,
        "items": 20,
        "unscored": 0,
    }
    run_builder.done("check", [("sample", one) for one in samples], metrics={"accuracy": rate})
    condition = {"text": HOSTILE, "kind": "at_least", "verdict": "fail", "threshold": 0.8, "confidence": 0.95}
    condition |= {"value": 0.5, "low": 0.3, "high": 0.7, "items": 20}
    run_builder.done("ship", verdict="fail", conditions=[condition])
    run_builder.settle("export", "held", reason="the gate ship did not open")
    models = {"base": scored_rows(0.3), f"org/{HOSTILE}": scored_rows(0.6)}
    run_builder.done("several", **make_eval_facts(models, ["topic", "item"], 10_000))
    run_builder.settle("left", "skipped", reason="not selected")
    run_builder.end()
    path = tmp_path / "report.html"
    path.write_text(run_builder.page(), encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_renders_in_silence(browser, report, scheme, width):
    browser.look(width=width, scheme=scheme)
    browser.open(report)
    assert browser.complaints() == []
    assert browser.requests() == [report.as_uri()]
    assert browser.value("document.querySelector('h1').textContent") == "sums"
    assert browser.value("document.documentElement.scrollWidth") == width
    drawn = """[...document.querySelectorAll("svg[aria-label]")]
        .filter((svg) => svg.checkVisibility())
        .map((svg) => [svg.getBoundingClientRect(), svg.children.length])
        .map(([box, children]) => [box.width, box.height, children])"""
    drawings = browser.value(drawn)
    assert len(drawings) >= 8
    assert [d for d in drawings if min(d) <= 0] == []
    paper = browser.value("getComputedStyle(document.body).backgroundColor")
    red = int(paper.removeprefix("rgb(").split(",")[0])
    assert (red > 200) == (scheme == "light")


def test_twenty_stages_are_readable_on_a_narrow_page(browser, make, tmp_path):
    """Every name is complete and large enough, and only the frames of tables and of the plan scroll."""
    names = [f"supervised-finetuning-{n:02}" for n in range(20)]
    estimate = {"seconds": 20, "memory_gb": 1, "dollars": 1, "parts": [{"seconds": 20, "dollars": 1}]}
    steps = [make.step(names[0], estimate=estimate)]
    steps += [make.step(b, inputs=(a,), estimate=estimate) for a, b in pairwise(names)]
    run = make.run(*steps)
    run = replace(run, steps=tuple(replace(one, estimate=estimate) for one in run.steps))
    path = tmp_path / "report.html"
    path.write_text(render_page(run), encoding="utf-8")
    browser.look(width=400)
    browser.open(path)
    assert browser.value("document.documentElement.scrollWidth") == 400
    assert browser.value("document.querySelector('.plan.along').checkVisibility()") is False
    seen = """[...document.querySelectorAll("SELECTOR")].map((one) => {
        const box = one.getBoundingClientRect();
        const cut = one instanceof HTMLElement && getComputedStyle(one).display !== "inline"
            && one.scrollWidth > one.clientWidth + 1;
        return [one.textContent, box.left >= 0 && box.right <= 400 && !cut && box.height >= 12];
    })"""
    for where in (".plan.down .name", ".timeline .cut", ".estimates th[scope=row] a span"):
        found = browser.value(seen.replace("SELECTOR", where))
        assert found == [[name, True] for name in names], where
    browser.look(width=1400)
    assert browser.value("document.documentElement.scrollWidth") == 1400
    frame = browser.value("""(() => {
        const frame = document.querySelector(".plan.along").parentElement;
        return [frame.scrollWidth > frame.clientWidth, frame.tabIndex];
    })()""")
    assert frame == [True, 0]
    browser.look(width=400)
    browser.value("document.querySelector('.estimates').parentElement.scrollLeft = 300")
    sticky = "document.querySelector('.estimates tbody th').getBoundingClientRect().left"
    assert 0 <= browser.value(sticky) < 60
    assert browser.complaints() == []


def test_text_can_be_told_from_what_it_stands_on(browser, report):
    """The WCAG contrast of small text in both color schemes."""
    contrast = """(() => {
      const light = (colour) => {
        const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
          .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const behind = (element) => {
        for (let e = element; e; e = e.parentElement) {
          const colour = getComputedStyle(e).backgroundColor;
          if (!/, 0\\)$/.test(colour) && colour !== "transparent") return colour;
        }
      };
      const texts = ".soft, .pill, .facts, nav a, figcaption, td, th, dt, a:not(.cell):not(.skip)";
      return [...document.querySelectorAll(texts)]
        .filter((e) => e.checkVisibility() && !e.closest("svg"))
        .map((e) => {
          const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
          return [(a + 0.05) / (b + 0.05), e.className + " " + e.textContent.slice(0, 20)];
        })
        .filter(([ratio]) => ratio < 4.5);
    })()"""
    for scheme in ("light", "dark"):
        browser.look(scheme=scheme)
        browser.open(report)
        assert browser.value(contrast) == []


def test_pointing_at_a_curve_reads_its_values(browser, report):
    browser.look()
    browser.open(report)
    box = browser.value("""(() => {
      const svg = document.querySelector(".chart[data-metric] > svg");
      svg.scrollIntoView({behavior: "instant", block: "center"});
      const box = svg.getBoundingClientRect();
      return [box.left, box.top, box.width, box.height];
    })()""")
    words = "document.querySelector('#curves .readout').textContent"
    before = browser.value(words)
    browser.move(box[0] + box[2] - 12, box[1] + box[3] / 2)
    assert browser.value(words).startswith("step 60: -0.3048")
    browser.move(5, 5)
    assert browser.value(words) == before
    browser.value("document.querySelector('.chart[data-metric] > svg').focus()")
    for _ in range(3):
        browser.press("ArrowRight")
    assert browser.value(words).startswith("step 3: 0.1411")
    assert browser.complaints() == []


def test_samples_are_chosen_by_stage_outcome_and_text(browser, report):
    browser.look()
    browser.open(report)
    shown = """[...document.querySelectorAll(".sample")].filter((card) => card.checkVisibility())
        .map((card) => card.querySelector("pre").textContent)"""
    choose = """(() => { const box = document.querySelector("%s"); box.value = "%s";
        box.dispatchEvent(new Event("%s")); })()"""
    assert len(browser.value(shown)) == 8
    browser.value("document.querySelector('#more-samples').click()")
    assert len(browser.value(shown)) == 20
    browser.value(choose % ("#sample-outcome", "right", "change"))
    assert browser.value(shown)[:2] == ["1+1=", "3+1="]
    browser.value(choose % ("#sample-text", "13+", "input"))
    assert browser.value(shown) == ["13+1="]
    assert browser.value("document.querySelector('#sample-count').textContent") == "1 of 1 shown"
    assert browser.complaints() == []


def test_samples_are_chosen_by_model(browser, run_builder, make, tmp_path):
    common = {"step": 0, "prompt": "p", "values": {}}
    events = [{**common, "kind": "sample", "model": m, "completion": m} for m in ("one", "two", "one")]
    run_builder.begin(make.step("check", "eval"))
    path = run_builder.work("check") / "record" / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    (tmp_path / "page.html").write_text(run_builder.page(), encoding="utf-8")
    browser.look()
    browser.open(tmp_path / "page.html")
    browser.value("""(() => { const box = document.querySelector("#sample-model"); box.value = "one";
        box.dispatchEvent(new Event("change")); })()""")
    assert browser.value("document.querySelector('#sample-count').textContent") == "2 of 2 shown"
    assert browser.complaints() == []


def test_whitespace_of_a_completion_is_kept(browser, report):
    browser.look()
    browser.open(report)
    kept = browser.value("document.querySelectorAll('.sample pre')[1].textContent")
    assert kept.startswith("\n  </script>")
    assert kept.endswith("\u2400\u27e8U+202E\u27e9\n0")


def test_a_step_of_the_picture_opens_its_details(browser, report):
    browser.look()
    browser.open(report)
    assert browser.value("document.querySelector('#step-1').open") is False
    browser.value("""document.querySelector('.plan.along a[href="#step-1"]')
        .dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}))""")
    assert browser.value(
        "new Promise((done) => setTimeout(() => done(document.querySelector('#step-1').open), 200))"
    )


def test_without_scripts_everything_is_there(browser, report):
    browser.look(script=False)
    browser.open(report)
    found = browser.call("DOM.getDocument")["root"]["nodeId"]
    text = browser.call("DOM.getOuterHTML", nodeId=found)["outerHTML"]
    assert text.count("<article") == 20
    assert 'class="sample" hidden' not in text
    browser.look()


def test_a_page_prints(browser, report):
    import base64

    browser.look()
    browser.open(report)
    printed = base64.b64decode(browser.call("Page.printToPDF", printBackground=True)["data"])
    assert printed.startswith(b"%PDF")
    assert (
        printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") + printed.count(b"/Type/Page") >= 2
    )


def test_durations_of_the_timeline_stay_on_the_page(browser, make, tmp_path):
    """Of bars that begin early and end late too: there is no room on either side of them."""
    spans = ((0, 100), (10, 81), (70, 100), (0, 50), (98, 100))
    records = [
        StepRecord(step=step, key=step.key, state="done", attempt=2, began=float(low), ended=float(high))
        for step, (low, high) in ((make.step(f"s{n}"), span) for n, span in enumerate(spans))
    ]
    (tmp_path / "page.html").write_text(render_page(make.run(*records)))
    browser.look(width=400)
    browser.open(tmp_path / "page.html")
    inside = """[...document.querySelectorAll('#timeline .row:not(.times)')].map((row) => {
        const [box, text] = [row, row.querySelector("svg > .tick")].map((one) => one.getBoundingClientRect());
        return text.left >= box.left && text.right <= box.right; })"""
    assert browser.value(inside) == [True] * 5
