"""Events that are read as they are appended equal those that the report reads."""

import json
import time

import pytest

from posttrain.runtime.events import EventWriter
from posttrain.runtime.report.events_reader import read_step_events
from posttrain.runtime.ui import event_follower
from posttrain.runtime.ui.event_follower import EventFollower

SECRETS = ("hunter2",)


def later() -> float:
    return time.monotonic() + 60


def follow(path) -> EventFollower:
    return EventFollower(path, SECRETS, episodes=False)


def training(writer: EventWriter, first: int, last: int) -> None:
    for step in range(first, last):
        writer.progress(step, 50, "steps")
        writer.emit(
            "metrics",
            step=step,
            values={"loss": 1 / step, "reward/right": float("nan"), "flag": True, "cost/tokens": step},
        )
        if step % 15 == 0:
            writer.emit("metrics", step=step, values={"eval/loss": 0.5})
        if step % 10 == 0:
            writer.emit("checkpoint", step=step)
            writer.emit(
                "sample", step=step, prompt="hunter2?", completion=[{"role": "assistant", "content": "x"}]
            )
            writer.emit("warning", message="hunter2", advice="none")


def test_it_reads_what_the_report_reads(tmp_path):
    """With an attempt that resumed and one that started over."""
    path = tmp_path / "events.jsonl"
    writer = EventWriter(path)
    follower = follow(path)
    for resumed, last in ((None, 36), (20, 50), (None, 15), (10, 41)):
        writer.emit("started", attempt=1)
        writer.emit("phase", name="loading")
        if resumed:
            writer.emit("resumed", step=resumed)
        training(writer, (resumed or 0) + 1, last)
        follower.read(later())
        report, live = read_step_events(path, SECRETS), follower.events()
        assert repr(live.metrics) == repr(report.metrics)  # NaN is not equal to itself
        assert live.samples == report.samples
        assert live.checkpoints == report.checkpoints
        assert live.resumed == report.resumed
        assert live.evals == report.evals
        assert live.progress.tokens == report.progress.tokens
        assert dict(live.progress.seconds) == pytest.approx(dict(report.progress.seconds), abs=0.5)
        assert live.warnings[0].message == "[secret]"
    assert live.metrics["loss"][-1][0] == 40


def test_an_attempt_that_ends_while_it_loads_hides_nothing(tmp_path):
    """Killed before its first step, it leaves the checkpoint to the next attempt."""
    path = tmp_path / "events.jsonl"
    lines = [
        {"at": 0, "kind": "started"},
        *({"at": 10 * step, "kind": "metrics", "step": step, "values": {"loss": step}} for step in (1, 2, 3)),
        {"at": 31, "kind": "warning", "message": "slow"},
        {"at": 40, "kind": "started"},
        {"at": 41, "kind": "phase", "name": "loading"},
        {"at": 100, "kind": "started"},
        {"at": 105, "kind": "resumed", "step": 1},
        {"at": 106, "kind": "warning", "message": "slow"},
        {"at": 110, "kind": "metrics", "step": 2, "values": {"loss": 7}},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    follower = follow(path)
    follower.read(later())
    for found in (read_step_events(path, SECRETS), follower.events()):
        assert found.metrics == {"loss": ((1, 1), (2, 7))}
        assert [one.count for one in found.warnings] == [2]
        # The running time, with the work that was lost, and without the pauses.
        assert found.progress.seconds == ((1, 10), (2, 41))


def test_a_half_written_line_is_read_when_it_is_complete(tmp_path):
    path = tmp_path / "events.jsonl"
    line = json.dumps({"at": 1, "kind": "metrics", "step": 4, "values": {"loss": 0.5}}) + "\n"
    path.write_text(line[:20])
    follower = follow(path)
    follower.read(later())
    assert follower.events().metrics == {}
    with path.open("a") as file:
        file.write(line[20:] + "null\n[]\n{}\n\x00\xff not JSON\n" + '{"kind": "metrics", "step": {}}\n')
    follower.read(later())
    assert follower.events().metrics == {"loss": ((4.0, 0.5),)}
    assert follower.unread == (0, path.stat().st_size)


def test_a_long_file_is_read_in_several_calls(tmp_path, monkeypatch):
    monkeypatch.setattr(event_follower, "_PIECE_BYTES", 4_000)
    path = tmp_path / "events.jsonl"
    writer = EventWriter(path)
    for step in range(400):
        writer.emit("metrics", step=step, values={"loss": float(step)})
    follower = follow(path)
    follower.read(0)
    seen = len(follower.events().metrics["loss"])
    assert 10 < seen < 100
    assert follower.unread[0] > 0
    while follower.unread[0]:
        follower.read(0)
    assert len(follower.events().metrics["loss"]) == 400


def test_a_file_that_was_replaced_is_read_from_its_start(tmp_path):
    path = tmp_path / "events.jsonl"
    EventWriter(path).emit("metrics", step=1, values={"loss": 1.0})
    follower = follow(path)
    follower.read(later())
    path.rename(tmp_path / "old")
    EventWriter(path).emit("metrics", step=9, values={"loss": 9.0})
    follower.read(later())
    assert follower.events().metrics == {"loss": ((9.0, 9.0),)}


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_what_is_no_file_has_no_events(tmp_path, kind):
    path = tmp_path / "events.jsonl"
    if kind == "folder":
        path.mkdir()
    follower = follow(path)
    follower.read(later())
    assert follower.events().metrics == {}
