from dataclasses import replace

import pytest

from posttrain.runtime.report.failures import failures_section, failures_title
from posttrain.runtime.report.gate_results import gates_section
from posttrain.runtime.report.page import render_page
from posttrain.runtime.report.run_record import StepEvents
from posttrain.runtime.report.run_summary import page_header, run_outcome
from posttrain.runtime.report.timeline import timeline_section


def left_out(make, *skipped, state="done", reason="not selected"):
    run = make.run(*(make.step(name) for name in ("one", "two", "three")))
    steps = [
        replace(r, state="skipped", reason=reason, began=None, attempt=0)
        if r.id in skipped
        else replace(r, state=state)
        for r in run.steps
    ]
    return replace(run, steps=tuple(steps))


def test_a_run_of_some_steps_is_finished_and_says_what_it_left_out(make):
    run = left_out(make, "two")
    assert run_outcome(run) == ("done", "Finished")
    assert "All 2 steps finished. 1 more step was skipped." in page_header(run)
    assert failures_title(run) == "Skipped steps"
    assert "<b>two</b>: not selected" in failures_section(run)
    assert "skipped: not selected" in timeline_section(run)


def test_a_long_reason_stands_where_there_is_room(make):
    run = left_out(
        make, "two", reason="the gate ship was inconclusive, and this step belongs to another branch"
    )
    assert "belongs to another branch" in failures_section(run)
    assert "belongs to another branch" not in timeline_section(run)


def test_a_run_that_had_nothing_to_do(make):
    run = left_out(make, "two", "three", state="cached")
    assert run_outcome(run) == ("cached", "Finished: nothing to run")
    assert "All 1 step finished in earlier runs. 2 more steps were skipped." in page_header(run)


def test_what_failed_is_not_called_left_out(make):
    run = left_out(make, "two", state="failed")
    assert failures_title(run) == "Not finished"


@pytest.mark.parametrize("skipped", [("two",), ("one", "two", "three")])
def test_skipped_steps_have_their_sign_in_the_picture(make, skipped):
    text = render_page(left_out(make, *skipped))
    assert f"{len(skipped)} skipped" in text
    # The plan is drawn from left to right, and from the top down for narrow pages.
    assert text.count('class="box s-skipped"') == 2 * len(skipped)
    assert "unknown" not in text.split("</style>")[1].split("<footer")[0]


def branched(make, verdict, more, other):
    params = {"on_fail": {"run": ["more"]}, "on_inconclusive": {"run": ["other"]}}
    gates = {"gates": ("ship",)}
    run = make.run(
        make.step("ship", "gate", params=params),
        make.step("more@a", **gates),
        make.step("other", **gates),
        make.step("export", **gates),
    )
    ship, first, second, export = run.steps
    ship = replace(ship, facts={"verdict": verdict, "conditions": [{}, {}], "correction": "holm"})
    steps = (ship, replace(first, state=more), replace(second, state=other), export)
    return replace(run, steps=steps)


def test_a_branch_that_was_not_taken_is_named_at_its_gate(make):
    drawn = gates_section(branched(make, "fail", "done", "skipped"))
    assert "It started more." in drawn
    assert "It skipped other: the branch of another verdict." in drawn
    assert "A condition fails only after Holm&#x27;s correction over all 2 conditions." in drawn
    passed = gates_section(branched(make, "pass", "skipped", "skipped"))
    assert (
        "It let the steps that depend on it run. It skipped more@a and other: the branch of another verdict."
        in passed
    )


def test_a_gate_that_was_skipped_says_so(make):
    run = make.run(make.step("ship", "gate"))
    run = replace(run, steps=(replace(run.steps[0], state="skipped", reason="excluded with --skip"),))
    assert "This gate was skipped (excluded with --skip)." in gates_section(run)


def test_what_a_skipped_step_once_said_is_not_of_this_run(run_builder, make):
    run_builder.begin(make.step("sft"), make.step("dpo"))
    run_builder.work("sft", [("metrics", {"step": 1, "values": {"loss": 2.0}})])
    run_builder.settle("sft", "skipped", reason="not selected")
    run_builder.done("dpo")
    run_builder.end()
    assert run_builder.record().steps[0].events == StepEvents()
    assert "1 more step was skipped" in run_builder.page()


def test_what_a_waiting_step_did_in_an_earlier_run_is_not_of_this_run(run_builder, make):
    run_builder.begin(make.step("sft"), make.step("dpo"))
    run_builder.work("dpo", [("metrics", {"step": 1, "values": {"loss": 2.0}})])
    run_builder.settle("dpo", "waiting")
    assert run_builder.record().steps[1].events == StepEvents()
