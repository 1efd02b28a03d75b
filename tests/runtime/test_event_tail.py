"""The progress of a running step: its rate, the remaining time, the latest metrics."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.report.conftest import make

from posttrain.runtime.event_tail import EventTail, last_progress
from posttrain.runtime.execution.step_progress import StepProgress
from posttrain.runtime.inspection.log_filter import EventLines
from posttrain.runtime.report.progress_text import progress_text
from posttrain.spec.plan import Resources

__all__ = ["make"]


def write(path: Path, events: Iterable[Mapping[str, Any]]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def progress(at: float, done: int, total: int | None = 100, unit: str = "steps") -> dict[str, Any]:
    return {"at": at, "kind": "progress", "done": done, "total": total, "unit": unit}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_the_rate_covers_the_last_thirty_seconds(path: Path) -> None:
    slow = [progress(float(at), at) for at in range(11)]  # 1 step/s
    fast = [progress(10 + at, 10 + 2 * at) for at in range(1, 41)]  # 2 steps/s
    write(path, [*slow, *fast])
    tail = EventTail(path)
    found = tail.progress()
    assert found is not None
    assert found["per_second"] == pytest.approx(2.0)
    assert found["seconds_left"] == pytest.approx(5.0)
    assert last_progress(path) == {**found, "metrics": {}}
    assert tail.progress() is None


def test_units_slower_than_the_window_have_a_rate(path: Path) -> None:
    write(path, [progress(0.0, 0), progress(120.0, 1), progress(240.0, 2)])
    found = EventTail(path).progress()
    assert found is not None
    assert found["per_second"] == pytest.approx(1 / 120)
    assert progress_text(found) == "2/100 steps  2 min/step  3.3 h left"


@pytest.mark.parametrize(
    "later",
    [
        [{"at": 50.0, "kind": "started", "attempt": 2}, progress(51.0, 20)],
        [progress(51.0, 5)],
        [progress(51.0, 20, unit="rows")],
        [progress(51.0, 20, total=40)],
        [progress(3.0, 20)],
    ],
    ids=["a new attempt", "done decreases", "another unit", "another total", "the clock goes back"],
)
def test_the_past_of_other_work_does_not_count(path: Path, later: list[dict[str, Any]]) -> None:
    write(path, [progress(0.0, 0), progress(10.0, 10), *later])
    found = EventTail(path).progress()
    assert found is not None
    assert (found["per_second"], found["seconds_left"]) == (None, None)


def test_repeated_reports_of_the_same_count_do_not_end_a_rate(path: Path) -> None:
    write(path, [progress(0.0, 0), progress(10.0, 10), progress(11.0, 10)])
    found = EventTail(path).progress()
    assert found is not None
    assert found["per_second"] == pytest.approx(1.0)


HUGE = 10**400  # an integer that no float can hold


@pytest.mark.parametrize(
    "event",
    [
        progress(1.0, 1, total=None),
        progress(1.0, HUGE),
        {**progress(1.0, 1), "done": "x"},
        {**progress(1.0, 1), "unit": []},
        {"at": 1.0, "kind": "warning", "message": {}},
        {"at": 1.0, "kind": "metrics", "step": 1, "values": {"loss": [], "reward": True}},
    ],
)
def test_damaged_events_change_no_progress(path: Path, event: dict[str, Any]) -> None:
    write(path, [progress(0.0, 0), event])
    found = EventTail(path).progress()
    assert found is not None
    assert progress_text(found) == "0/100 steps"


def test_a_report_without_a_time_has_no_rate(path: Path) -> None:
    write(path, [progress(0.0, 0), {**progress(1.0, 1), "at": "x"}])
    found = EventTail(path).progress()
    assert found is not None
    assert progress_text(found) == "1/100 steps"


def test_metrics_beyond_any_float_are_infinite(path: Path) -> None:
    values = {"loss": HUGE, "reward": -HUGE, "flag": True}
    write(path, [progress(0.0, 0), {"at": 1.0, "kind": "metrics", "step": 1, "values": values}])
    found = EventTail(path).progress()
    assert found is not None
    assert progress_text(found) == "0/100 steps  loss inf reward -inf"
    assert EventLines(path).new() == "step 1  loss inf  reward -inf\n"


def test_the_metrics_are_the_latest_that_are_shown(path: Path) -> None:
    losses = [{"at": 1.0, "kind": "metrics", "step": n, "values": {"loss": 1 / n}} for n in (1, 2)]
    other = {"at": 2.0, "kind": "metrics", "step": 2, "values": {"eval/loss": 3.0}}
    write(path, [progress(0.0, 0), *losses, other, progress(0.5, 2)])
    found = EventTail(path).progress()
    assert found is not None
    assert progress_text(found) == "2/100 steps  4 steps/s  24 s left  loss 0.5"


def test_a_new_attempt_does_not_show_the_progress_of_an_earlier_one(path: Path, make: Any) -> None:
    """While it loads, the file has only the events of the earlier one."""
    work = path.parent
    (work / "record").mkdir()
    events = work / "record" / "events.jsonl"
    write(events, [progress(0.0, 0), progress(1.0, 50), {"at": 1.0, "kind": "warning", "message": "slow"}])
    launched = StepProgress(step=make.step("sft"), key="0", required=Resources())
    launched.skip_past_events(work)
    assert launched.read_progress(work) is None
    assert launched.warnings() == []
    write(events, [{"at": 9.0, "kind": "started", "attempt": 2}, progress(10.0, 41)])
    found = launched.read_progress(work)
    assert found is not None
    assert progress_text(found) == "41/100 steps"
    inherited = StepProgress(step=make.step("sft"), key="0", required=Resources())
    assert inherited.read_progress(work) is not None


def test_metrics_that_follow_the_last_progress_are_read(path: Path) -> None:
    """A training reports its last step before the metrics of that step."""
    write(path, [progress(0.0, 0), progress(1.0, 100)])
    tail = EventTail(path)
    tail.progress()
    write(path, [{"at": 1.1, "kind": "metrics", "step": 100, "values": {"loss": 0.25}}])
    found = tail.progress()
    assert found is not None
    assert (found["done"], found["metrics"]) == (100, {"loss": 0.25})
    write(path, [{"at": 1.2, "kind": "metrics", "step": 100, "values": {"eval/format": 1.0}}])
    assert tail.progress() is None
