"""Which process is reported as the cause of a failure when several fail."""

import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from posttrain.runtime.distributed import process_group, rank_failures, rank_launcher
from posttrain.runtime.errors import FAILED, NO_SPACE, StepError
from posttrain.runtime.events import EventWriter
from posttrain.runtime.process_tree import die_with_parent
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.worker import exit_process
from posttrain.spec.plan import Launch, SourceLocation, Step

_CONNECTION_LOST = RuntimeError("Connection closed by peer")


def wait_for(there: Callable[[], bool]) -> None:
    while not there():
        time.sleep(0.01)


def run_two_ranks(
    work: Path, run: Callable[[StepContext], None], monkeypatch: pytest.MonkeyPatch
) -> StepError:
    """Run a failing step of two processes, which do not need a rendezvous."""
    monkeypatch.setattr(
        rank_launcher,
        "join_process_group",
        lambda rank, _rendezvous, _step: os.environ.update(RANK=str(rank)),
    )
    step = Step(
        id="it", kind="sft", entry="", params={}, place=SourceLocation(file="recipe.yaml", line=1, column=1),
        key="", key_parts={}, key_values={}, launch=Launch(processes=2, strategy="ddp"),
    )  # fmt: skip
    (work / "record").mkdir()
    events = EventWriter(work / "record" / "events.jsonl")
    context = StepContext(
        step=step, params=None, inputs={}, files={}, out=work / "files", work=work, events=events
    )
    with pytest.raises(StepError) as raised:
        rank_launcher.run_ranks(
            context, run, rank_launcher.ProcessHooks(die_with_parent, exit_process, lambda: None)
        )
    return raised.value


@pytest.mark.parametrize("hurry", ["the killed one is gone first", "the killed one is gone last"])
def test_a_killed_process_is_the_cause_whoever_is_seen_first(
    hurry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = tmp_path / "dying"

    def run(_: StepContext) -> None:
        if process_group.is_rank_zero():
            wait_for(dying.exists)
            time.sleep(0.3 if "first" in hurry else 0)
            raise _CONNECTION_LOST
        dying.touch()
        time.sleep(0.3 if "last" in hurry else 0)
        os.kill(os.getpid(), signal.SIGKILL)

    assert "process 1 of 2 was killed by signal 9" in str(run_two_ranks(tmp_path, run, monkeypatch))


def test_a_process_that_waits_for_ever_for_a_failed_one_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_: StepContext) -> None:
        if process_group.is_rank_zero():
            signal.pause()
        raise StepError("the reward raised", "correct it")

    assert str(run_two_ranks(tmp_path, run, monkeypatch)) == "the reward raised (process 1 of 2)"


def test_the_first_to_say_something_is_the_cause(tmp_path: Path) -> None:
    rank_failures.record_failure(tmp_path, 1, ValueError("a bad row"))
    rank_failures.record_failure(tmp_path, 0, _CONNECTION_LOST)
    failure = rank_failures.first_failure(tmp_path, {0: FAILED, 1: FAILED}, 2)
    assert str(failure) == "ValueError: a bad row (process 1 of 2)"


def test_one_that_could_say_nothing_was_before_all_that_could(tmp_path: Path) -> None:
    rank_failures.record_failure(tmp_path, 0, _CONNECTION_LOST)
    failure = rank_failures.first_failure(tmp_path, {0: FAILED, 1: -signal.SIGKILL}, 2)
    assert "process 1 of 2 was killed by signal 9" in str(failure)
    assert "rank-1.log" in failure.advice
    assert failure.retriable


def test_one_that_a_library_aborts_is_blamed_when_no_other_is(tmp_path: Path) -> None:
    aborted = {0: -signal.SIGABRT}
    assert "process 0 of 2 was killed by signal 6" in str(rank_failures.first_failure(tmp_path, aborted, 2))
    assert "process 1 of 2 was killed by signal 9" in str(
        rank_failures.first_failure(tmp_path, {**aborted, 1: -9}, 2)
    )
    rank_failures.record_failure(tmp_path, 1, StepError("the reward raised", "correct it"))
    failure = rank_failures.first_failure(tmp_path, {**aborted, 1: FAILED}, 2)
    assert str(failure) == "the reward raised (process 1 of 2; process 0 was killed by signal 6)"
    assert failure.advice == "correct it"


def test_what_an_earlier_attempt_said_is_no_cause(tmp_path: Path) -> None:
    rank_failures.record_failure(tmp_path, 1, ValueError("of yesterday"))
    rank_failures.clear_failures(tmp_path, 2)
    rank_failures.record_failure(tmp_path, 0, _CONNECTION_LOST)
    assert "Connection closed" in str(rank_failures.first_failure(tmp_path, {0: FAILED}, 2))


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), MemoryError()])
def test_the_advice_is_that_of_a_step_alone(error: Exception, tmp_path: Path) -> None:
    rank_failures.record_failure(tmp_path, 0, error)
    advice = rank_failures.first_failure(tmp_path, {0: FAILED}, 2).advice
    assert "free space" in advice or "lower micro_batch_size" in advice


def test_a_process_without_room_for_its_word_is_no_riddle(tmp_path: Path) -> None:
    (tmp_path / "scratch").write_text("where a folder should be\n")
    status = rank_failures.record_failure(tmp_path, 0, _CONNECTION_LOST)
    assert status == NO_SPACE
    (tmp_path / "scratch").unlink()
    assert "free space" in rank_failures.first_failure(tmp_path, {0: status}, 2).advice


def test_the_details_of_a_failed_process_reach_the_step(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    error = StepError("the reward node `x`: ValueError: no", details='  File "grade.py", line 3, in score')
    rank_failures.record_failure(tmp_path, 1, error)
    found = rank_failures.first_failure(tmp_path, {1: 1}, 2)
    assert found.details == error.details
    assert "process 1 of 2" in str(found)
