"""The report has no violation that axe-core finds, in both color schemes and on narrow screens."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.report import chart_page
from tests.runtime.report.axe_check import all_violations, install_axe, load_axe, violations
from tests.runtime.report.conftest import RunBuilder
from tests.runtime.report.eval_facts import make_eval_facts, scored_rows

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def axe(tmp_path_factory) -> str:
    return install_axe(tmp_path_factory.mktemp("npm"))


@pytest.fixture(scope="module")
def everything(make, tmp_path_factory) -> Path:
    return write_everything(RunBuilder(tmp_path_factory.mktemp("axe") / "home"), make)


def write_everything(builder: RunBuilder, make: Any) -> Path:
    """A report with every kind of section."""
    params = {"reward": make.reward}
    estimate = {"seconds": 2, "seconds_min": 1, "seconds_max": 4, "memory_gb": 0.5, "dollars": 0.02}
    estimate["parts"] = [{"name": "training", "seconds": 2, "dollars": 0.02}]
    builder.begin(
        make.step("base", "model"),
        make.step("sft", inputs=("base",), estimate=estimate),
        make.step("grpo", inputs=("sft",), params=params, estimate=estimate),
        make.step("check", "eval", inputs=("grpo",), params={**params, "metrics": make.metrics}),
        make.step("several", "eval", inputs=("base", "grpo")),
        make.step("ship", "gate", inputs=("check",)),
        make.step("export", "export", inputs=("grpo",), gates=("ship",)),
        make.step("broken", inputs=("base",)),
    )
    builder.done("base", parameters=10)
    for name in ("sft", "grpo"):
        work = [
            (event["kind"], {k: v for k, v in event.items() if k not in ("at", "kind")})
            for event in chart_page.sft_events()
        ]
        builder.done(name, [*work[1:], ("warning", {"message": "slow", "advice": "wait"})])
    samples = [
        (
            "sample",
            {
                "step": 0,
                "prompt": f"{n}+1=",
                "completion": str(n),
                "values": {"right": 3.0 if n % 2 else -1.0},
            },
        )
        for n in range(12)
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
    builder.done("check", samples, metrics={"accuracy": rate})
    builder.done(
        "several", **make_eval_facts({"base": scored_rows(0.3), "grpo": scored_rows(0.6)}, ["topic"], 10_000)
    )
    condition = {
        "text": "check.accuracy at least 0.8",
        "kind": "at_least",
        "verdict": "fail",
        "threshold": 0.8,
    }
    condition |= {"confidence": 0.95, "value": 0.5, "low": 0.3, "high": 0.7, "items": 20}
    builder.done("ship", verdict="fail", conditions=[condition])
    builder.settle("export", "held", reason="the gate ship did not open")
    builder.work("broken", log="Traceback\nthe last line\n")
    builder.settle("broken", "failed", reason="the loss is nan", advice="lower the learning rate")
    builder.end()
    path = builder.run / "report.html"
    path.write_text(builder.page(), encoding="utf-8")
    return path


def test_axe_finds_no_violation(browser, axe, everything):
    browser.look(width=1400)
    browser.open(everything)
    load_axe(browser, axe)
    # One table of values stands for all: they differ only in their numbers.
    browser.value("""document.querySelectorAll("details:not(.values), #curves .chart:first-of-type > .values")
        .forEach((one) => {
            one.open = !one.matches(".values") || !document.querySelector(".values[open]");
        })""")
    browser.value("document.querySelector('.chart .tools button:nth-child(2)').click()")
    found = all_violations(browser)
    assert found == {}, json.dumps(found, indent=1)
    browser.value("document.querySelector('.tools button').removeAttribute('aria-label')")
    browser.value("document.querySelector('.tools button').textContent = ''")
    browser.value("document.querySelector('.tools button').title = ''")
    assert [rule for rule, *_ in violations(browser, {"runOnly": ["button-name"]})] == ["button-name"]
    browser.value("localStorage.clear()")
    assert browser.complaints() == []


def test_the_focus_moves_through_a_chart_and_can_be_seen(browser, everything):
    """The chart, its tools and its table, in this order, each with an outline."""
    browser.look()
    browser.open(everything)
    # Only a focus by the keyboard has an outline.
    browser.value("document.querySelector('.stage-tools label:last-of-type select').focus()")
    browser.press("Tab")
    seen = []
    for _ in range(6):
        seen.append(
            browser.value("""(() => {
            const one = document.activeElement;
            const style = getComputedStyle(one);
            return [one.tagName + " " + one.textContent.slice(0, 5).trim() + " " + (one.title || ""),
                style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
        })()""")
        )
        browser.press("Tab")
    assert [visible for _, visible in seen] == [True] * 6
    assert [name.split(" ")[0] for name, _ in seen] == [
        "svg",
        "BUTTON",
        "BUTTON",
        "BUTTON",
        "BUTTON",
        "SUMMARY",
    ]
