from dataclasses import replace

import pytest

from posttrain.runtime.evaluation.statistics.verdicts import (
    combine_verdicts,
    compare_items,
    compare_to_threshold,
)
from posttrain.runtime.report.gate_results import gates_section
from posttrain.runtime.report.metric_rows import metric_axis, run_metrics
from posttrain.runtime.report.metrics_table import metrics_section
from posttrain.runtime.report.run_summary import page_header, summary_cards


def gate(make, *conditions, verdict="pass", state="done", on_fail="stop", export="done"):
    step = make.step("ship", "gate", params={"on_fail": on_fail, "on_inconclusive": "stop"})
    run = make.run(step, make.step("export", "export", gates=("ship",)))
    facts = {"verdict": verdict, "conditions": list(conditions)} if verdict else {}
    return replace(
        run, steps=(replace(run.steps[0], facts=facts, state=state), replace(run.steps[1], state=export))
    )


def threshold(kind="at_least", values=(1.0,) * 90 + (0.0,) * 10, at=0.8):
    found = compare_to_threshold(dict(enumerate(values)), kind, at, 0.95, 1)
    return {"text": f"after.accuracy {kind} {at}", "kind": kind, "confidence": 0.95, **found}


def gain(before, after):
    found = compare_items(dict(enumerate(after)), dict(enumerate(before)), 0.0, 0.95, 1)
    return {"text": "after better than before", "kind": "better_than", "confidence": 0.95, **found}


def test_a_condition_is_drawn_with_its_interval_and_its_threshold(make):
    drawn = gates_section(gate(make, threshold()))
    assert "95% interval <b>0.826 to 0.945</b>" in drawn
    assert 'x1="80.00%" x2="80.00%" y1="18" y2="58" class="threshold"' in drawn
    assert '<rect x="80.00%" y="22" width="20.00%"' in drawn
    assert 'aria-label="pass: estimate 0.900, interval 0.826 to 0.945; required: at least 0.8"' in drawn


def test_the_side_on_which_at_most_holds_is_the_left(make):
    drawn = gates_section(gate(make, threshold("at_most", at=0.95)))
    assert '<rect x="0%" y="22" width="95.00%"' in drawn


def test_a_comparison_counts_its_pairs(make):
    drawn = gates_section(gate(make, gain([0.0] * 50 + [1.0] * 50, [1.0] * 60 + [0.0] * 2 + [1.0] * 38)))
    assert "50 better, 2 worse, 48 the same" in drawn
    assert "gain <b>+0.480</b>" in drawn


def test_a_comparison_tells_its_test_its_margin_and_what_took_no_part(make):
    found = compare_items(
        dict.fromkeys(range(40), 1.0), {n: float(n % 2) for n in range(3, 50)}, 0.1, 0.95, 1
    )
    drawn = gates_section(gate(make, {"text": "t", "kind": "better_than", "confidence": 0.95, **found}))
    assert f"{found['method'].replace(chr(39), '&#x27;')}, p <b>{found['p']:.2g}</b>" in drawn
    assert "margin <b>+0.100</b>" in drawn
    assert "from <b>0.514 to 1.000</b>" in drawn
    assert "left out because only one side has a value <b>13 items</b>" in drawn


def test_a_failure_that_the_correction_leaves_open_says_so(make):
    low = {"text": "low", "kind": "at_least", "confidence": 0.95}
    looks = [
        {
            **low,
            **compare_to_threshold({n: float(n % 3 == 0) for n in range(25)}, "at_least", at, 0.95, 1),
        }
        for at in (0.58, 0.3)
    ]
    ruled = combine_verdicts(looks, "holm")
    assert looks[0]["verdict"] == "fail"
    assert ruled.conditions[0]["verdict"] == "inconclusive"
    drawn = gates_section(gate(make, *ruled.conditions, verdict=ruled.verdict))
    assert "inconclusive after <b>Holm&#x27;s correction, which requires p below 0.025</b>" in drawn
    assert drawn.count("inconclusive after") == 1


def test_one_item_is_no_interval(make):
    found = {"text": "t", "kind": "at_least", "verdict": "inconclusive", "threshold": 0.5, "items": 1}
    drawn = gates_section(gate(make, {**found, "value": 0.75, "low": None, "high": None}))
    assert "Value 0.750 from 1 item: too few for an interval." in drawn


def test_a_comparison_without_any_change(make):
    drawn = gates_section(gate(make, gain([1.0] * 9, [1.0] * 9), verdict="fail"))
    assert "0 better, 0 worse, 9 the same" in drawn
    assert "nan" not in drawn


def test_a_gate_without_scored_items_is_inconclusive(make):
    drawn = gates_section(gate(make, threshold(values=()), verdict="inconclusive"))
    assert "No item was scored" in drawn
    assert "inconclusive" in drawn


def test_a_gate_that_was_not_reached_shows_what_it_would_ask(make):
    run = gate(make, verdict=None, state="blocked")
    asked = run.steps[0].step.model_copy(
        update={"params": {"conditions": [{"text": "after.accuracy at least 0.8"}]}}
    )
    first = replace(run.steps[0], step=asked, reason="grpo was failed")
    drawn = gates_section(replace(run, steps=(first, run.steps[1])))
    assert "after.accuracy at least 0.8" in drawn
    assert "not decided" in drawn
    assert "grpo was failed" in drawn


@pytest.mark.parametrize(
    ("verdict", "on_fail", "export", "said"),
    [
        ("pass", "stop", "done", "let the steps that depend on it run"),
        ("fail", "stop", "held", "held back export"),
        ("fail", "warn", "done", "on_fail: warn"),
    ],
)
def test_what_a_verdict_meant_is_said(make, verdict, on_fail, export, said):
    assert said in gates_section(gate(make, verdict=verdict, on_fail=on_fail, export=export))


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"verdict": 3},
        {"verdict": "pass"},
        {"verdict": "odd", "value": 1, "low": 1, "high": 1, "threshold": 1, "kind": None},
        {"verdict": "pass", "value": "x", "low": None, "high": float("nan"), "threshold": 1},
        {"verdict": "pass", "value": 1e308, "low": -1e308, "high": 1e308, "threshold": 0, "items": 0},
        {"verdict": "pass", "better": 1, "worse": 1, "items": float("inf")},
    ],
)
def test_conditions_that_are_not_what_they_should_be_break_nothing(make, odd):
    drawn = gates_section(gate(make, odd))
    assert "ship" in drawn
    assert "nan" not in drawn


def evaluated(make, **metrics):
    run = make.run(*(make.step(name, "eval") for name in metrics))
    steps = (
        replace(r, facts={"metrics": {"accuracy": metrics[r.id]}, "truncated": 0.015}) for r in run.steps
    )
    return replace(run, steps=tuple(steps))


RATE = {"kind": "rate", "node": "right", "value": 0.5, "low": 0.4, "high": 0.6, "items": 1200, "unscored": 3}
NONE = {"kind": "rate", "node": "right", "value": None, "low": None, "high": None, "items": 0, "unscored": 9}


def test_metrics_stand_in_a_table_with_their_intervals(make):
    drawn = metrics_section(evaluated(make, before=RATE, after=NONE))
    for words in ("<b>0.500</b>", "0.400 \u2013 0.600", "1,200", ">3<", "1.5%"):
        assert words in drawn
    assert drawn.count('class="small"') == 1


def test_means_of_one_name_share_an_axis(make):
    low, high = ({"kind": "mean", "value": v, "low": v - 1, "high": v + 1} for v in (2.0, 8.0))
    found = run_metrics(evaluated(make, before=low, after=high))
    assert metric_axis(found[0], found) == metric_axis(found[1], found)
    assert metric_axis(found[0], found)[1] > 9


def test_the_cards_show_the_last_metrics_and_the_gates(make):
    drawn = summary_cards(evaluated(make, **{f"eval{n}": RATE for n in range(20)}))
    assert "accuracy \u00b7 eval19" in drawn
    assert "accuracy \u00b7 eval12<" not in drawn
    assert "13 more metrics below" in drawn
    assert "gate \u00b7 ship" in summary_cards(gate(make, threshold()))


@pytest.mark.parametrize(
    ("state", "title", "said"),
    [
        ("done", "Finished", "All 2 steps finished."),
        ("cached", "Finished", "All 2 steps finished, 1 of them in earlier runs."),
        ("failed", "Failed", "two failed: out of luck."),
        ("interrupted", "Interrupted", "interrupted in two"),
        ("held", "Held at a gate", "two was held back by a gate."),
        ("blocked", "Not finished", "1 of 2 steps finished."),
        ("running", "Unfinished", "in progress when this page was generated"),
        ("waiting", "Unfinished", "in progress when this page was generated"),
    ],
)
def test_the_top_says_how_the_run_ended(make, state, title, said):
    run = make.run(make.step("one"), make.step("two"), result=None if title == "Unfinished" else "x")
    drawn = page_header(
        replace(run, steps=(run.steps[0], replace(run.steps[1], state=state, reason="out of luck")))
    )
    assert f"{title}</span>" in drawn
    assert said in drawn
