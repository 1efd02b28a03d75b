"""Each point is sent once across interruptions; a failing tracker is retried."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.runtime.trackers.fake_training_step import STEP, FakeTrainingRun

from posttrain.runtime.trackers.metrics_reader import MetricsReader
from posttrain.runtime.trackers.tracker_feed import TrackerFeed
from posttrain.runtime.trackers.tracker_process import feed_state_path
from posttrain.runtime.trackers.tracker_protocol import TrackedStep, flatten_params


class FakeSink:
    """An in-memory tracker. While `broken`, it rejects all metrics."""

    def __init__(self) -> None:
        self.points: list[tuple[int, dict[str, float]]] = []
        self.closed: list[bool] = []
        self.broken = False

    def __call__(self, tracked: TrackedStep) -> "FakeSink":
        return self

    def log_metrics(self, step: int, values: Mapping[str, float], at: float) -> None:
        if self.broken:
            raise ConnectionError("nobody answers")
        self.points.append((step, dict(values)))

    def close(self, *, finished: bool) -> None:
        self.closed.append(finished)

    @property
    def steps(self) -> list[int]:
        return [step for step, _ in self.points]


@pytest.fixture
def training_run(tmp_path: Path) -> FakeTrainingRun:
    return FakeTrainingRun(tmp_path)


def open_feed(training_run: FakeTrainingRun, notebook: FakeSink) -> tuple[MetricsReader, TrackerFeed]:
    """The reader and the feed of a step, as in the tracker process."""
    home = training_run.home
    tracked = TrackedStep(
        recipe="sums", run="r", step="sft", key=STEP.key, kind="train", params={}, folder=home.root
    )
    return MetricsReader(home, STEP.key), TrackerFeed(
        "notebook", tracked, notebook, feed_state_path(home, STEP.key, "notebook")
    )


def test_points_are_sent_as_they_come(training_run: FakeTrainingRun) -> None:
    notebook = FakeSink()
    reader, feed = open_feed(training_run, notebook)
    training_run.attempt(1, 2)
    feed.send(list(reader.new_points()))
    assert notebook.steps == [1, 2]
    training_run.events.emit("metrics", step=3, values={"loss": 0.1})
    feed.send(list(reader.new_points()))
    assert notebook.points[2:] == [(3, {"loss": 0.1})]


def test_what_a_resumed_attempt_does_again_is_not_sent_again(training_run: FakeTrainingRun) -> None:
    notebook = FakeSink()
    reader, feed = open_feed(training_run, notebook)
    training_run.attempt(1, 2, 3)
    feed.send(list(reader.new_points()))
    training_run.attempt(3, 4, resumed=2)
    feed.send(list(reader.new_points()))
    assert notebook.steps == [1, 2, 3, 4]


def test_a_later_run_goes_on_where_an_earlier_one_was_cut_off(training_run: FakeTrainingRun) -> None:
    notebook = FakeSink()
    reader, feed = open_feed(training_run, notebook)
    training_run.attempt(1, 2)
    feed.send(list(reader.new_points()))
    feed.release()  # as the kernel does for a client that dies
    reader, feed = open_feed(training_run, notebook)  # another process, which reads from the start
    training_run.attempt(2, 3, resumed=1)
    feed.send(list(reader.new_points()))
    assert notebook.steps == [1, 2, 3]


def test_one_of_two_clients_feeds_and_the_other_takes_over(training_run: FakeTrainingRun) -> None:
    notebook = FakeSink()
    first_reader, first = open_feed(training_run, notebook)
    second_reader, second = open_feed(training_run, notebook)
    training_run.attempt(1, 2)
    for reader, feed in ((first_reader, first), (second_reader, second)):
        feed.send(list(reader.new_points()))
    assert notebook.steps == [1, 2]
    first.close(first_reader)
    training_run.events.emit("metrics", step=3, values={"loss": 0.1})
    second.send(list(second_reader.new_points()))
    assert notebook.steps == [1, 2, 3]
    training_run.finish()
    second.close(second_reader)
    assert (first.error, second.error, second.finalized) == ("", "", True)
    _, third = open_feed(training_run, notebook)
    assert third.finalized
    assert not list((training_run.home.root / "tracking" / "sent").glob("*.lock"))


def test_the_one_that_waits_does_not_repeat_the_summary(training_run: FakeTrainingRun) -> None:
    notebook = FakeSink()
    feeds = [open_feed(training_run, notebook) for _ in range(2)]
    training_run.attempt(1)
    training_run.finish()
    for reader, feed in feeds:
        feed.send(list(reader.new_points()))
    for reader, feed in feeds:
        feed.close(reader)
    assert notebook.steps == [1, 1]  # the point and the summary
    assert [feed.error for _, feed in feeds] == ["", ""]


FEED_PROGRAM = """\
import sys, time
from pathlib import Path
from posttrain.runtime.trackers.metrics_reader import MetricPoint
from posttrain.runtime.trackers.tracker_feed import TrackerFeed
from posttrain.runtime.trackers.tracker_protocol import TrackedStep

folder = Path(sys.argv[1])
class Sink:
    def log_metrics(self, step, values, at):
        with (folder / "sent").open("a") as file:
            file.write(f"{step}\\n")
tracked = TrackedStep(recipe="r", run="r", step="s", key="k", kind="train", params={}, folder=folder)
feed = TrackerFeed("notebook", tracked, lambda _: Sink(), folder / "state" / "k.notebook.json")
while not (folder / "go").exists():
    time.sleep(0.001)
for step in range(500):
    feed.send([MetricPoint((step, 1), {"loss": 0.0}, 0.0)])
    if feed.error:
        raise SystemExit(feed.error)
    if step % 50 == 0:
        feed.release()
"""


def test_two_processes_feed_one_step(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FEED_PROGRAM, str(tmp_path)]
    clients = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    (tmp_path / "go").touch()
    errors = [client.communicate()[1] for client in clients]
    assert errors == ["", ""]
    assert sorted(map(int, (tmp_path / "sent").read_text().split())) == list(range(500))


def test_several_points_of_one_step_are_told_apart(training_run: FakeTrainingRun) -> None:
    notebook = FakeSink()
    reader, feed = open_feed(training_run, notebook)
    training_run.attempt(1, 1)
    feed.send(list(reader.new_points()))
    training_run.attempt(1, 1, 2)
    feed.send(list(reader.new_points()))
    assert notebook.steps == [1, 1, 2]


def test_a_finished_step_tells_its_metrics_and_cost_once(training_run: FakeTrainingRun) -> None:
    notebook = FakeSink()
    reader, feed = open_feed(training_run, notebook)
    training_run.attempt(1, 2)
    training_run.finish()
    feed.send(list(reader.new_points()))
    feed.close(reader)
    assert notebook.points[-1] == (
        2,
        {
            "eval/accuracy": 0.75,
            "eval/accuracy/low": 0.5,
            "eval/accuracy/high": 0.9,
            "cost/seconds": 3.0,
            "cost/peak_memory_mb": 200.0,
        },
    )
    assert notebook.closed == [True]
    _, feed = open_feed(training_run, notebook)
    assert feed.finalized


def test_a_tracker_that_fails_is_left_alone_and_gets_everything_at_the_end(
    training_run: FakeTrainingRun,
) -> None:
    notebook = FakeSink()
    reader, feed = open_feed(training_run, notebook)
    training_run.attempt(1)
    feed.send(list(reader.new_points()))
    notebook.broken = True
    for step in (2, 3):
        training_run.events.emit("metrics", step=step, values={"loss": 0.0})
        feed.send(list(reader.new_points()))
    assert feed.error == "ConnectionError: nobody answers"
    notebook.broken = False
    feed.close(reader)
    assert notebook.steps == [1, 2, 3]
    assert feed.error == ""


def test_a_tracker_that_never_works_gets_it_in_a_later_run(training_run: FakeTrainingRun) -> None:
    notebook = FakeSink()
    notebook.broken = True
    reader, feed = open_feed(training_run, notebook)
    training_run.attempt(1, 2)
    training_run.finish()
    feed.send(list(reader.new_points()))
    feed.close(reader)
    assert feed.error
    assert not feed.finalized
    notebook.broken = False
    reader, feed = open_feed(training_run, notebook)
    feed.send(list(reader.new_points()))
    feed.close(reader)
    assert notebook.steps == [1, 2, 2]
    assert feed.finalized


def test_a_step_that_was_stopped_is_no_finished_one(training_run: FakeTrainingRun) -> None:
    notebook = FakeSink()
    reader, feed = open_feed(training_run, notebook)
    training_run.attempt(1)
    feed.send(list(reader.new_points()))
    feed.close(reader)
    assert notebook.closed == [False]
    assert not feed.finalized


def test_lines_cut_short_wait_for_their_rest(training_run: FakeTrainingRun) -> None:
    reader, _ = open_feed(training_run, FakeSink())
    path = training_run.work / "record" / "events.jsonl"
    path.write_text('{"kind": "metrics", "step": 1, "values": {"loss": 1, "note": "x"}, "at": 5.0')
    assert list(reader.new_points()) == []
    with path.open("a") as file:
        file.write("}\nno event\n")
    (found,) = reader.new_points()
    assert (found.sequence, dict(found.values), found.at) == ((1, 1), {"loss": 1.0}, 5.0)


def test_parameters_are_flat_and_nothing_is_left_unsaid_but_null() -> None:
    assert flatten_params({"a": {"b": 1, "c": None}, "d": [1, 2], "e": True}) == {
        "a.b": 1,
        "d": "[1, 2]",
        "e": True,
    }
