from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from posttrain.runtime.report.curve_data import build_curve
from posttrain.runtime.report.run_record import StepEvents
from posttrain.runtime.report.step_sums import StepProgress, read_progress, sums_at
from posttrain.runtime.report.training_curves import curves_section


def metrics(at, step, **values):
    return {"at": at, "kind": "metrics", "step": step, "values": values}


def started(at):
    return {"at": at, "kind": "started"}


def test_the_time_of_a_stage_has_no_pauses():
    events = [started(100), metrics(110, 1), metrics(120, 2), started(500), metrics(507, 3)]
    assert read_progress(events).seconds == ((1.0, 10.0), (2.0, 20.0), (3.0, 27.0))


def test_the_time_of_a_step_does_not_include_its_evaluation():
    events = [started(100), metrics(110, 1), metrics(115, 1, **{"eval/loss": 1.0}), metrics(125, 2)]
    assert read_progress(events).seconds == ((1.0, 10.0), (2.0, 25.0))


def test_tokens_are_summed_and_an_evaluation_has_those_of_its_step():
    events = [
        metrics(1, 1, **{"cost/tokens": 100}),
        metrics(2, 2, **{"cost/tokens": 50}),
        metrics(3, 2, **{"eval/loss": 1.0}),
    ]
    progress = read_progress(events)
    assert progress.tokens == ((1.0, 100.0), (2.0, 150.0))
    curve = build_curve("eval/loss", ((0.0, 2.0), (2.0, 1.0), (3.0, 1.0)), progress=progress)
    assert curve.tokens == (0.0, 150.0, 150.0)


def test_without_counts_there_is_no_such_axis(make):
    assert sums_at((), (1.0, 2.0)) == ()
    run = make.run(make.step("sft"))
    events = StepEvents(metrics={"loss": ((1.0, 2.0), (2.0, 1.0))})
    assert 'data-axes="steps"' in curves_section(make.run(replace(run.steps[0], events=events)))


times = st.floats(-1e12, 1e12) | st.just("x") | st.none()
events = st.lists(
    st.fixed_dictionaries(
        {"at": times, "kind": st.sampled_from(["metrics", "started", "phase"]), "step": st.integers(-5, 9)},
        optional={"values": st.dictionaries(st.just("cost/tokens"), st.floats() | st.text())},
    ),
    max_size=20,
)


@given(events)
def test_sums_never_fall_whatever_the_events_are(found):
    progress = read_progress(found)
    assert isinstance(progress, StepProgress)
    for sums in (progress.seconds, progress.tokens):
        assert list(sums) == sorted(sums)
        totals = [total for _, total in sums]
        assert totals == sorted(totals)
