from dataclasses import replace

import pytest
from tests.runtime.report import eval_facts
from tests.runtime.report.eval_facts import make_eval_facts, scored_rows

from posttrain.runtime.report.forest_plot import draw_forest_plot
from posttrain.runtime.report.metric_rows import run_metrics
from posttrain.runtime.report.metrics_table import metrics_section
from posttrain.runtime.report.page import render_page
from posttrain.runtime.report.run_summary import summary_cards

MODELS = {"base": scored_rows(0.2), "sft": scored_rows(0.5, seed=2), "grpo": scored_rows(0.9, seed=3)}


def evaluated(make, facts):
    run = make.run(make.step("check", "eval"))
    return replace(run, steps=(replace(run.steps[0], facts=facts),))


def test_models_stand_below_each_other_with_their_metrics_and_shares(make):
    facts = make_eval_facts(MODELS)
    drawn = metrics_section(evaluated(make, facts))
    for model in MODELS:
        found = facts["metrics"][f"{model}.accuracy"]
        assert f'<th scope="row">{model}</th>' in drawn
        assert f"<b>{found['value']:.3f}</b>" in drawn
        assert f"{found['low']:.3f} \u2013 {found['high']:.3f}" in drawn
    assert drawn.count(">3.3%<") == 2 * len(MODELS)
    assert "Timed out" in drawn
    assert "Failed" not in drawn
    assert 'class="metrics"' not in drawn


def test_every_metric_is_drawn_with_an_interval_for_each_model(make):
    found = run_metrics(evaluated(make, make_eval_facts(MODELS)))
    drawing = draw_forest_plot([metric for metric in found if metric.name == "accuracy"])
    assert drawing.count('class="estimate"') == 3
    assert "accuracy of 3 models: base 0." in drawing
    assert "highest: grpo with " in drawing


def test_models_are_compared_pair_by_pair(make):
    facts = make_eval_facts(MODELS)
    drawn = metrics_section(evaluated(make, facts))
    pairs = [one for one in facts["comparisons"] if one["metric"] == "accuracy"]
    assert [(one["model"], one["baseline"]) for one in pairs] == [
        ("sft", "base"),
        ("grpo", "base"),
        ("grpo", "sft"),
    ]
    for one in pairs:
        assert f"<b>{one['value']:+.3f}</b>" in drawn
        assert f"{one['low']:+.3f} to {one['high']:+.3f}" in drawn
        assert f">{one['items'] - one['better'] - one['worse']}</td>" in drawn
    assert "<b>grpo</b>" in drawn
    assert 'class="drawn s-cached"' in drawn
    assert ">p</th>" in drawn


def test_a_test_of_a_comparison_is_told_where_there_is_one(make):
    facts = make_eval_facts(MODELS)
    facts["comparisons"] = [{**one, "p": 0.0123} for one in facts["comparisons"]]
    drawn = metrics_section(evaluated(make, facts))
    assert ">p</th>" in drawn
    assert ">0.012</td>" in drawn
    facts["comparisons"] = [{k: v for k, v in one.items() if k != "p"} for one in facts["comparisons"]]
    assert ">p</th>" not in metrics_section(evaluated(make, facts))


def test_differences_in_what_was_lost_are_folded_away(make):
    worse = scored_rows(0.5)
    for row in worse[:9]:
        row["node:is unscored"] = True
    drawn = metrics_section(evaluated(make, make_eval_facts({"base": scored_rows(0.5), "other": worse})))
    folded = drawn[drawn.index("1 difference in unscored, truncated or timed-out items") :]
    assert "<b>other</b>" in folded
    assert ">More</th>" in folded
    assert drawn.count("<details") == 1


def test_more_comparisons_than_rows_are_counted(make):
    drawn = metrics_section(
        evaluated(make, make_eval_facts({f"m{n}": scored_rows(0.5, 12, n) for n in range(20)}))
    )
    assert "80 more are in comparisons.json." in drawn


def test_metrics_of_one_model_keep_their_table(make):
    drawn = metrics_section(evaluated(make, make_eval_facts({"base": scored_rows(0.5)})))
    assert 'class="metrics"' in drawn
    assert "Timed out" in drawn
    assert "Compared" not in drawn


def test_a_share_is_told_of_each_model_by_itself(make):
    clipped = [{**row, "finish": "length"} for row in scored_rows(0.5)]
    facts = make_eval_facts({"base": scored_rows(0.5), "clipped": clipped})
    (mine,) = {m.rate("truncated") for m in run_metrics(evaluated(make, facts)) if m.model == "clipped"}
    assert mine == 1.0
    assert eval_facts.completion_rates(clipped)["truncated"] == 1.0


def test_the_cards_name_the_model(make):
    assert "accuracy \u00b7 check \u00b7 grpo" in summary_cards(evaluated(make, make_eval_facts(MODELS)))


@pytest.mark.parametrize(
    "odd",
    [
        {"comparisons": 3},
        {"comparisons": [None, {}, {"metric": "accuracy"}, {"metric": "accuracy", "value": "x", "low": 1}]},
        {"comparisons": [{"metric": "accuracy", "value": 1, "low": float("nan"), "high": 1e999}]},
        {"rates": [1]},
        {"rates": {"base": 3}},
        {"metrics": {"base.accuracy": {"model": "base"}, "x": {"model": ["list"]}, "y": None}},
        {"metrics": {"base.accuracy": {"model": "base", "value": 1, "low": 1, "high": 1, "kind": "mean"}}},
    ],
)
def test_an_eval_that_is_not_what_it_should_be_breaks_nothing(make, odd):
    drawn = metrics_section(evaluated(make, {**make_eval_facts(MODELS), **odd}))
    assert "base" in drawn
    assert "nan" not in drawn


def test_a_run_of_many_evals_is_one_page_of_bounded_size(make):
    facts = make_eval_facts({f"m{n}": scored_rows(0.5, 120, n) for n in range(4)}, ["item"], 10_000)
    run = make.run(*(make.step(f"check-{n}", "eval") for n in range(200)))
    steps = tuple(replace(r, facts=facts, breakdowns=tuple(facts["breakdowns"])) for r in run.steps)
    text = render_page(replace(run, steps=steps))
    assert len(text) < 10_000_000
    assert "Details of 140 more evals are not shown" in text
