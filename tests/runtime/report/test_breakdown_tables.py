import json
import re
from dataclasses import replace

import pytest
from tests.runtime.report.eval_facts import make_eval_facts, scored_rows

from posttrain.runtime.report.metrics_table import metrics_section


def breakdown_markup(make, facts):
    run = make.run(make.step("check", "eval"))
    return replace(run, steps=(replace(run.steps[0], facts=facts, breakdowns=tuple(facts["breakdowns"])),))


def headed(drawn):
    """The row headers of the breakdowns, in order."""
    return re.findall(r'<th scope="rowgroup"[^>]*>([^<]*)</th>', drawn)


def test_the_largest_groups_come_first(make):
    drawn = metrics_section(breakdown_markup(make, make_eval_facts({"base": scored_rows(0.5)}, ["topic"])))
    assert headed(drawn) == ["algebra", "geometry", "a &lt;b&gt;bold&lt;/b&gt; topic"]
    assert "by topic" in drawn
    assert '<details open class="column">' in drawn
    assert ">Model</th>" not in drawn


def test_a_group_has_its_metrics_with_intervals_and_its_rates(make):
    facts = make_eval_facts({"base": scored_rows(0.5)}, ["topic"])
    drawn = metrics_section(breakdown_markup(make, facts))
    section = drawn[drawn.index(": breakdown") :]
    for one in facts["breakdowns"]:
        if one["metric"] in ("accuracy", "length"):
            assert f"<b>{one['value']:.3f}</b>" in section
            assert f"{one['low']:.3f} \u2013 {one['high']:.3f}" in section
        else:
            assert f">{one['value']:.1%}<" in section
    for head in ("Unscored", "Truncated", "Timed out"):
        assert f">{head}</th>" in section
    assert section.count('class="small"') == 3


def test_several_models_stand_together_in_each_group(make):
    models = {"base": scored_rows(0.2), "sft": scored_rows(0.8)}
    drawn = metrics_section(breakdown_markup(make, make_eval_facts(models, ["topic"])))
    assert headed(drawn)[0] == "algebra"
    assert drawn.count('rowspan="2"') == 3
    assert drawn.count("<td>base</td>") == 3


def test_a_long_table_is_folded_and_its_smallest_groups_are_left_out(make):
    facts = make_eval_facts({"base": scored_rows(0.5, 400)}, ["item"], 10_000)
    drawn = metrics_section(breakdown_markup(make, facts))
    assert '<details class="column">' in drawn
    assert "400 values" in drawn
    assert len(headed(drawn)) == 300
    assert "100 smaller groups not shown: see breakdowns.json." in drawn


def test_values_of_other_types_stay_apart(make):
    base = {"column": "n", "metric": "accuracy", "kind": "rate", "low": 0.1, "high": 0.9, "items": 3}
    values = [1, "1", None, True, 0.5, [1, "x"], {"a": 1}, "y" * 200]
    facts = {"breakdowns": [{**base, "group": value, "value": 0.5} for value in values]}
    drawn = metrics_section(breakdown_markup(make, facts))
    assert headed(drawn)[:5] == ["1", "1", "none", "true", "0.5"]
    assert len(headed(drawn)) == len(values)
    assert "y" * 61 not in drawn


@pytest.mark.parametrize(
    "odd", [{}, {"column": 1}, {"group": 1}, {"group": "x", "metric": None, "value": "v"}]
)
def test_breakdowns_that_are_not_what_they_should_be_break_nothing(make, odd):
    facts = make_eval_facts({"base": scored_rows(0.5)}, ["topic"])
    facts["breakdowns"].append(odd)
    assert "algebra" in metrics_section(breakdown_markup(make, facts))


def test_an_eval_whose_groups_have_no_names_shows_none(make):
    facts = make_eval_facts({"base": scored_rows(0.5)}, ["topic"])
    facts["breakdowns"] = [{k: v for k, v in one.items() if k != "group"} for one in facts["breakdowns"]]
    assert ": breakdown" not in metrics_section(breakdown_markup(make, facts))


def test_the_product_has_the_groups_for_which_the_facts_had_no_room(run_builder, make):
    facts = make_eval_facts({"base": scored_rows(0.5)}, ["topic"], 10_000)
    run_builder.begin(make.step("check", "eval"))
    run_builder.done("check", **{**facts, "breakdowns": facts["breakdowns"][:5]})
    run_builder.end()
    assert len(run_builder.record().steps[0].breakdowns) == 5
    path = run_builder.home.store.find(run_builder.key("check")).files / "breakdowns.json"
    path.write_text(json.dumps(facts["breakdowns"]))
    assert len(run_builder.record().steps[0].breakdowns) == 15
    path.write_text("{")
    assert len(run_builder.record().steps[0].breakdowns) == 5
