from dataclasses import replace

import pytest

from posttrain.runtime.report.expected_vs_measured import estimates_table
from posttrain.runtime.report.page import render_page
from posttrain.runtime.report.timeline import timeline_section

EXPECTED = {"seconds": 20, "seconds_min": 8, "seconds_max": 30, "memory_gb": 2.0}


def measured(make, cost, **estimate):
    run = make.run(make.step("base", "model"), make.step("sft"))
    sft = replace(run.steps[1], estimate={**EXPECTED, **estimate}, cost=cost)
    return replace(run, steps=(run.steps[0], sft))


def test_what_was_expected_stands_beside_what_was_measured(make):
    drawn = estimates_table(measured(make, {"peak_memory_mb": 1000}))
    assert "<b>10.0 s</b>" in drawn
    assert "20 s (8 s to 30 s)" in drawn
    assert "as expected" in drawn
    assert "<b>1.05 GB</b>" in drawn
    assert ">2 GB</td>" in drawn
    assert "system memory, 0.52x" in drawn
    assert "base" not in drawn


def test_the_memory_of_a_gpu_counts_where_one_was_used(make):
    drawn = estimates_table(measured(make, {"peak_memory_mb": 1000, "peak_gpu_mb": 4000}))
    assert "<b>4.19 GB</b>" in drawn
    assert "GPU, 2.1x" in drawn


@pytest.mark.parametrize(("seconds", "said"), [(4, "2.5x"), (400, "under 0.1x"), (20, "as expected")])
def test_how_far_the_time_is_off_is_said(make, seconds, said):
    bounds = {"seconds_min": seconds / 2, "seconds_max": seconds * 2}
    assert said in estimates_table(measured(make, {}, seconds=seconds, **bounds))


def test_the_timeline_marks_where_a_step_was_expected_to_end(make):
    drawn = timeline_section(measured(make, {}, seconds=5))
    assert '<line x1="75.000%" x2="75.000%" y1="4" y2="26" class="expected">' in drawn
    assert "5 s (8 s to 30 s) expected" in drawn
    assert 'class="expected"' not in timeline_section(measured(make, {}, seconds=500))


def test_a_run_of_which_nothing_was_expected_has_no_such_table(make):
    run = make.run(make.step("sft"))
    assert estimates_table(run) is None
    assert "Expected" not in render_page(run)


@pytest.mark.parametrize(
    "odd", [{"seconds": "long"}, {"seconds": -1, "memory_gb": 0}, {"seconds": 0}, {"memory_gb": float("nan")}]
)
def test_estimates_that_are_not_what_they_should_be_break_nothing(make, odd):
    run = measured(make, {"peak_memory_mb": "much", "peak_gpu_mb": 3}, **odd)
    assert "nan" not in (estimates_table(run) or "")
    assert "sft" in render_page(run)


def test_estimates_come_from_the_journal_and_else_from_the_plan(run_builder, make):
    run_builder.begin(make.step("sft", estimate=EXPECTED), make.step("dpo"))
    run_builder.done("sft")
    run_builder.done("dpo")
    run_builder.end()
    assert [record.estimate for record in run_builder.record().steps] == [EXPECTED, {}]
    assert "Expected and measured" in run_builder.page()
    assert "Peak memory" in run_builder.page()
    for path in run_builder.run.glob("journal.sqlite*"):
        path.unlink()
    assert run_builder.record().steps[0].estimate == EXPECTED
