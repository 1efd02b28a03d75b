import re

import pytest

from posttrain.runtime.report.run_record import Sample, StepEvents
from posttrain.runtime.report.sample_browser import choose_samples, samples_section
from posttrain.runtime.report.sample_correctness import correctness_rules, sample_outcome


def sample(**values):
    return Sample(step=3, prompt="1+1=", completion="2", values=values)


@pytest.fixture
def judged(make):
    """An eval with a rate metric on a node, and a stage that trains on the same reward."""
    check = make.step("check", "eval", params={"reward": make.reward, "metrics": make.metrics})
    return make.run(check, make.step("grpo", params={"reward": make.reward}), make.step("sft"))


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (3.0, "right"),
        (-1.0, "wrong"),
        (1.0, "right"),
        (0.9, "wrong"),
        (None, "unscored"),
        ("x", "unscored"),
        (True, "right"),
        (False, "wrong"),
    ],
)
def test_a_sample_is_right_by_the_score_made_from_what_a_metric_counts(judged, value, found):
    for record in judged.steps[:2]:
        assert sample_outcome(correctness_rules(judged)[record.id], sample(right=value)) == found


def test_nothing_is_right_or_wrong_where_nothing_decides(judged):
    assert correctness_rules(judged)["sft"] is None
    assert sample_outcome(None, sample(right=1.0)) is None
    assert sample_outcome(correctness_rules(judged)["check"], sample(other=1.0)) is None


def test_a_metric_of_a_named_node_decides_by_itself(make):
    step = make.step("check", "eval", params={"metrics": {"right": {"kind": "rate", "node": "solved"}}})
    run = make.run(step)
    judge = correctness_rules(run)["check"]
    assert [sample_outcome(judge, sample(solved=value)) for value in (1.0, 0.0)] == ["right", "wrong"]


def test_a_mean_decides_nothing(make):
    step = make.step("check", "eval", params={"metrics": {"score": {"kind": "mean", "node": "returns"}}})
    run = make.run(step)
    assert correctness_rules(run)["check"] is None


def with_samples(make, *samples, stages=1):
    from dataclasses import replace

    run = make.run(*(make.step(f"check-{n}", "eval") for n in range(stages)))
    steps = tuple(replace(record, events=StepEvents(samples=samples)) for record in run.steps)
    return replace(run, steps=steps)


def test_long_texts_are_cut_and_it_is_said(make):
    long = Sample(step=0, prompt="p", completion="x" * 50_000, values={"note": "y" * 500})
    drawn = samples_section(with_samples(make, long))
    assert "42,000 more characters are not shown" in drawn
    assert "y" * 80 not in drawn
    assert len(drawn) < 20_000


def test_many_samples_are_spread_over_all_stages(make):
    many = tuple(sample(n=float(n)) for n in range(40))
    drawn = samples_section(with_samples(make, *many, stages=100))
    assert drawn.count("<article") == 600
    assert 'data-stage="99"' in drawn


def outcomes(*found):
    return [
        Sample(step=0, prompt="", completion=str(n), values={}, outcome=one) for n, one in enumerate(found)
    ]


def test_other_samples_are_spaced_evenly():
    assert [one.completion for one in choose_samples(outcomes(*["right"] * 10), 5)] == list("02468")


def test_failures_are_kept_before_other_samples():
    few = outcomes(*["wrong", "unscored"], *["right"] * 20)
    assert [one.outcome for one in choose_samples(few, 10)] == ["wrong", "unscored", *["right"] * 8]
    many = outcomes(*["wrong"] * 20, *["right"] * 20)
    assert [one.outcome for one in choose_samples(many, 10)] == [*["wrong"] * 8, *["right"] * 2]
    assert [one.completion for one in choose_samples(outcomes(*["wrong"] * 20), 10)] == [
        str(n) for n in range(10)
    ]


def test_the_samples_of_an_eval_start_with_failures_and_those_of_a_training_keep_their_order(make):
    from dataclasses import replace

    params = {"reward": make.reward, "metrics": make.metrics}
    run = make.run(make.step("check", "eval", params=params), make.step("grpo", params=params))
    events = StepEvents(samples=(sample(right=3.0), sample(right=-1.0)))
    drawn = samples_section(replace(run, steps=tuple(replace(one, events=events) for one in run.steps)))
    found = re.findall(r'id="(sample-\d-\d)" data-stage="\d" data-outcome="(\w+)"', drawn)
    assert found == [
        ("sample-1-0", "right"),
        ("sample-1-1", "wrong"),
        ("sample-0-1", "wrong"),
        ("sample-0-0", "right"),
    ]


def test_reasoning_is_folded(make):
    for text in ("<think>\na b c\n</think>\n\nfour", "a b c</think>four"):
        drawn = samples_section(with_samples(make, Sample(step=0, prompt="p", completion=text, values={})))
        assert "<summary>Reasoning, 3 words</summary>" in drawn
        assert "four</pre>" in drawn


def test_empty_texts_say_so(make):
    drawn = samples_section(with_samples(make, Sample(step=0, prompt="", completion="", values={})))
    assert drawn.count(">empty<") == 2


def test_a_run_without_samples_has_no_such_section(make):
    assert samples_section(make.run(make.step("sft"))) is None
