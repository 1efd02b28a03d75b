"""The page of a run that is not over."""

import threading

from posttrain.runtime.store.file_locks import acquire_lock
from posttrain.runtime.ui import live_run
from posttrain.runtime.ui.live_run import LiveRun
from posttrain.runtime.ui.resource_usage import GpuMonitor


def make_live(builder, **environment: str) -> LiveRun:
    return LiveRun(builder.home, builder.run, GpuMonitor(), environment)


def test_a_run_in_progress_has_no_failures(run_builder, make):
    run_builder.begin(make.step("base", "model"), make.step("sft"), make.step("check", "eval"))
    run_builder.done("base")
    run_builder.work("sft", [("progress", {"done": 5, "total": 10, "unit": "steps"})])
    live = make_live(run_builder)
    lock = acquire_lock(run_builder.home.run_lock(run_builder.run))
    blocks = live.blocks()
    assert "failures" not in blocks
    assert "Running" in blocks["summary"]
    assert "1 of 3 steps finished so far." in blocks["summary"]
    assert "5/10 steps" in blocks["now"]
    assert "Stop at a checkpoint" in blocks["stop"]
    lock.discard()
    blocks = live.blocks()
    assert "Interrupted" in blocks["summary"]
    assert "sft" in blocks["failures"]
    assert "Stop at a checkpoint" not in blocks["stop"]


def test_a_failed_step_is_shown_while_others_run(run_builder, make):
    run_builder.begin(make.step("sft"), make.step("dpo"), make.step("check", "eval"))
    run_builder.settle("sft", "failed", reason="out of luck", attempt=1)
    run_builder.work("dpo")
    lock = acquire_lock(run_builder.home.run_lock(run_builder.run))
    blocks = make_live(run_builder).blocks()
    lock.discard()
    assert "out of luck" in blocks["failures"]
    assert "check" not in blocks["failures"]


def test_secrets_are_masked(run_builder, make):
    run_builder.begin(make.step("sft", secrets=("KEY",)))
    run_builder.work("sft", [("warning", {"message": "hunter2", "advice": ""})], log="hunter2\n")
    live = make_live(run_builder, KEY="hunter2")
    assert not [name for name, html in live.blocks().items() if "hunter2" in html]
    assert live.secrets == ("hunter2",)


def test_secrets_are_masked_in_a_log_whose_page_was_not_opened(run_builder, make, serve, monkeypatch):
    monkeypatch.setenv("KEY", "hunter2")
    run_builder.begin(make.step("sft", secrets=("KEY",)))
    run_builder.work("sft", log="the key hunter2\n")
    text = serve(run_builder.home.root).get(f"run/0/{run_builder.run.name}/log?step=sft")
    assert "the key [secret]" in text


def test_a_long_file_is_read_by_a_thread(run_builder, make, monkeypatch):
    """Each rendering reads one piece; the page says how much is left."""
    monkeypatch.setattr(live_run, "_READ_SECONDS", 0.0)
    monkeypatch.setattr(live_run, "_READ_TURN_SECONDS", 0.0)
    monkeypatch.setattr("posttrain.runtime.ui.event_follower._PIECE_BYTES", 20_000)
    run_builder.begin(make.step("sft"))
    run_builder.work("sft", [("metrics", {"step": s, "values": {"loss": 1 / s}}) for s in range(1, 2_000)])
    live, may_read, read_rest = make_live(run_builder), threading.Event(), LiveRun._read_rest
    monkeypatch.setattr(LiveRun, "_read_rest", lambda self: may_read.wait(60) and read_rest(self))
    first = live.blocks()
    assert "Reading the events" in first["now"]
    assert live._reader is not None
    may_read.set()
    live._reader.join(60)
    blocks = live.blocks()
    assert "Reading the events" not in blocks["now"]
    assert "1,999 steps" in blocks["curves"]
