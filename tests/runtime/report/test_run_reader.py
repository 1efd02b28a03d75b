import math

import pytest

from posttrain.runtime.report.run_reader import read_run
from posttrain.runtime.report.run_record import StepEvents


def metrics(step, **values):
    return ("metrics", {"step": step, "values": values})


def sample(step, completion, **values):
    return ("sample", {"step": step, "prompt": "1+1=", "completion": completion, "values": values})


@pytest.fixture
def finished(run_builder, make):
    """A run with a finished step, a cached one and a failed one."""
    steps = make.step("sft"), make.step("before", "eval", inputs=("sft",)), make.step("grpo", inputs=("sft",))
    run_builder.begin(*steps)
    run_builder.done("sft", [metrics(1, loss=2.0), metrics(2, loss=1.0, note=3)], steps=2)
    run_builder.done("before", [sample(0, "2", right=True)], metrics={})
    run_builder.cached("before")
    run_builder.work(
        "grpo",
        [metrics(1, loss=math.nan), ("warning", {"message": "slow", "advice": "wait"})],
        log="one\ntwo\n",
    )
    run_builder.settle("grpo", "failed", reason="the loss is nan", advice="lower the learning rate")
    run_builder.end()
    return run_builder


def test_a_run_is_read_as_it_happened(finished):
    run = finished.record()
    assert run.read_errors == ()
    assert (run.plan.name, run.result) == ("sums", "failed")
    assert run.recipe == "recipes/sums/recipe.yaml"
    assert run.began <= run.ended
    sft, before, grpo = run.steps
    assert [record.state for record in run.steps] == ["done", "cached", "failed"]
    assert sft.events.metrics == {"loss": ((1.0, 2.0), (2.0, 1.0)), "note": ((2.0, 3.0),)}
    assert sft.facts == {"steps": 2}
    assert sft.cost["peak_memory_mb"] == 120.0
    assert 0 <= sft.seconds < 60
    assert sft.files["model.safetensors"]["size"] == len(b"weights")
    assert before.events.samples[0].values == {"right": True}
    assert (grpo.reason, grpo.advice) == ("the loss is nan", "lower the learning rate")
    assert grpo.log_tail == ("one", "two")
    assert grpo.events.warnings[0].message == "slow"
    assert math.isnan(grpo.events.metrics["loss"][0][1])


def test_what_an_attempt_did_again_counts_once(run_builder, make):
    run_builder.begin(make.step("sft"))
    first = [metrics(step, loss=9.0) for step in (1, 2, 3)] + [("checkpoint", {"step": 2})]
    again = [
        ("started", {"attempt": 2}),
        ("resumed", {"step": 2}),
        metrics(3, loss=1.0),
        metrics(4, loss=1.0),
    ]
    run_builder.done("sft", first + again)
    run_builder.end()
    events = run_builder.record().steps[0].events
    assert events.metrics["loss"] == ((1.0, 9.0), (2.0, 9.0), (3.0, 1.0), (4.0, 1.0))
    assert (events.checkpoints, events.resumed) == ((2,), (2,))


def test_a_run_that_goes_on_or_was_cut_short_has_no_result(run_builder, make):
    run_builder.begin(make.step("sft"), make.step("grpo", inputs=("sft",)))
    run_builder.work("sft", [metrics(1, loss=2.0)])
    run = run_builder.record()
    assert (run.result, run.ended) == (None, None)
    assert [record.state for record in run.steps] == ["running", "waiting"]
    assert run.steps[0].events.metrics["loss"] == ((1.0, 2.0),)


def test_a_step_that_is_not_pinned_is_found_under_the_key_of_its_run(run_builder, make):
    run_builder.begin(make.step("sft", pinned=False))
    run_builder.done("sft", [metrics(1, loss=2.0)])
    run_builder.end()
    record = run_builder.record().steps[0]
    assert record.key != record.step.key
    assert record.events.metrics


def test_repeated_warnings_are_counted(run_builder, make):
    run_builder.begin(make.step("sft"))
    said = ("warning", {"message": "slow", "advice": ""})
    run_builder.done("sft", [said, said, said])
    assert [(w.message, w.count) for w in run_builder.record().steps[0].events.warnings] == [("slow", 3)]


def record_of(run_builder, id):
    return run_builder.home.store.root / run_builder.key(id) / "record"


def test_missing_events_are_no_events(finished):
    (record_of(finished, "sft") / "events.jsonl").unlink()
    run = finished.record()
    assert run.read_errors == ()
    assert run.steps[0].events == StepEvents()


def test_lines_that_are_damaged_are_left_out(finished):
    path = record_of(finished, "sft") / "events.jsonl"
    path.write_bytes(b'\x00\xff{"kind":\n[1]\n"x"\n' + path.read_bytes() + b'{"at": 1, "kind": "metr')
    run = finished.record()
    assert run.read_errors == ()
    assert run.steps[0].events.metrics["loss"] == ((1.0, 2.0), (2.0, 1.0))


@pytest.mark.parametrize(
    "line",
    [
        '{"kind": "metrics"}',
        '{"kind": "metrics", "step": "one", "values": {"loss": 1}}',
        '{"kind": "metrics", "step": 1, "values": [1]}',
        '{"kind": "metrics", "step": 1, "values": {"loss": "low", "ok": true}}',
        '{"kind": "sample"}',
        '{"kind": "sample", "step": null, "prompt": 3, "completion": {}, "values": 7}',
        '{"kind": "warning"}',
        '{"kind": "phase", "at": "now"}',
        '{"kind": "checkpoint"}',
        '{"kind": {"a": 1}}',
        '{"kind": "metrics", "step": 1e999, "values": {"loss": 1}}',
        '{"kind": "metrics", "step": 1, "values": {"loss": 1' + "0" * 400 + "}}",
    ],
)
def test_events_that_are_not_what_they_should_be_break_nothing(finished, line):
    path = record_of(finished, "sft") / "events.jsonl"
    path.write_text(path.read_text() + line + "\n")
    metrics = finished.record().steps[0].events.metrics
    assert metrics["loss"][1] == (2.0, 1.0)
    assert "ok" not in metrics
    assert "grpo" in finished.page()


def test_events_that_cannot_be_put_in_order_are_named(finished):
    path = record_of(finished, "sft") / "events.jsonl"
    path.write_text('{"kind": "metrics", "step": "x"}\n{"kind": "started"}\n{"kind": "resumed", "step": 1}\n')
    run = finished.record()
    assert run.read_errors == ("The events of sft are damaged. Its curves and samples are missing.",)
    assert run.steps[0].events == StepEvents()


def test_a_product_that_is_gone_is_named(finished):
    (finished.home.store.root / finished.key("sft")).rename(finished.home.root / "elsewhere")
    run = finished.record()
    assert "sft" in run.read_errors[0]
    assert run.steps[0].state == "done"
    assert "missing from the store" in finished.page()


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"format": 1, "files": {"a": 1}}', '{"format": 1, "files": 3}']
)
def test_a_manifest_that_is_none_is_as_good_as_gone(finished, text):
    (finished.home.store.root / finished.key("sft") / "manifest.json").write_text(text)
    run = finished.record()
    assert run.steps[0].files == {}
    assert "sft" in finished.page()


def journal_files(run_builder):
    return sorted(run_builder.run.glob("journal.sqlite*"))


def test_without_a_journal_what_stands_in_the_store_is_still_shown(finished):
    for path in journal_files(finished):
        path.unlink()
    run = finished.record()
    assert "no journal" in run.read_errors[0]
    assert {record.state for record in run.steps} == {"unknown"}
    assert run.steps[0].facts == {"steps": 2}
    assert run.steps[0].events.metrics["loss"]
    assert not journal_files(finished)
    assert "no journal" in finished.page()


@pytest.mark.parametrize(
    "damage", [lambda data: data[:3000], lambda data: b"", lambda data: b"no database" * 99]
)
def test_a_damaged_journal_is_named(finished, damage):
    path = finished.run / "journal.sqlite"
    path.write_bytes(damage(path.read_bytes()))
    run = finished.record()
    assert {record.state for record in run.steps} == {"unknown"}
    assert "sft" in finished.page()


@pytest.mark.parametrize("text", ["", "{", '{"format": 99}', "[]", '{"format": 1, "steps": [{}]}'])
def test_a_plan_that_cannot_be_read_leaves_the_journal(finished, text):
    (finished.run / "plan.json").write_text(text)
    run = finished.record()
    assert "plan of this run is not readable" in run.read_errors[0]
    assert [record.id for record in run.steps] == ["sft", "before", "grpo"]
    assert run.steps[0].events.metrics["loss"]
    assert "grpo" in finished.page()


def test_a_run_of_which_nothing_can_be_read_still_has_a_page(finished):
    for path in [*journal_files(finished), finished.run / "plan.json"]:
        path.write_bytes(b"\x00")
    page = finished.page()
    assert finished.run.name in page
    assert "is not readable" in page


def test_values_of_secrets_are_taken_out(run_builder, make):
    secret = 'sk-"1234567890'
    run_builder.begin(make.step("judge", secrets=("JUDGE_KEY",)), make.step("late", inputs=("judge",)))
    run_builder.work(
        "judge",
        [
            sample(0, f"the token is {secret}", note=secret),
            ("warning", {"message": secret, "advice": secret}),
        ],
        log=f"key={secret}",
    )
    run_builder.settle(
        "judge", "failed", reason=f"401 for {secret}", advice=f"is {secret} right?", facts={"key": secret}
    )
    run_builder.end()
    page = run_builder.page(JUDGE_KEY=secret)
    assert "1234567890" not in page
    assert page.count("[secret]") >= 6
    assert "JUDGE_KEY" in page


def test_the_environment_is_the_process_own_unless_given(finished):
    assert read_run(finished.home, finished.run) == finished.record()
