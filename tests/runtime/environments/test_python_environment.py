"""A user-defined class as an environment: separate processes, limits, and failures."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from posttrain.runtime.environments import episode_runner
from posttrain.runtime.environments.environment_protocol import EpisodeFactory, EpisodeResources
from posttrain.runtime.environments.episode_runner import EnvironmentSession
from posttrain.runtime.environments.python import Python, run
from posttrain.runtime.errors import StepError
from posttrain.spec.validation import parse_declaration

_FILE = Path(__file__).with_name("fake_environments.py")
ROWS = [{"name": "first", "secret": 1}, {"name": "second", "secret": 2}]


@contextmanager
def world(
    name: str,
    given: Mapping[str, Any] | None = None,
    *,
    on_error: str | float = "fail",
    seconds: float = 20.0,
    turns: int = 5,
    processes: int = 1,
    acts: str = "text",
) -> Iterator[EnvironmentSession]:
    params = parse_declaration(
        Python, {"call": f"fake_environments.py:{name}", "with": given or {}, "processes": processes}
    )
    place: EpisodeFactory = run(
        params, EpisodeResources(files={"fake_environments.py": _FILE}, seconds=seconds)
    )
    try:
        yield EnvironmentSession(
            factory=place,
            kind="python",
            acts=acts,
            columns=["name"],
            low=0.0,
            high=1.0,
            turns=turns,
            turn_tokens=None,
            reply="\n{observation}\n",
            on_error=on_error,
        )
    finally:
        place.close()


def test_an_episode_goes_as_the_class_says() -> None:
    with world("Echo", {"word": "yes", "times": 2}) as here:
        plays = episode_runner.start_episodes(here, ROWS, seed=3)
        assert [play.first_observation.split()[0] for play in plays] == ["first", "second"]
        episode_runner.step_episodes(here, plays, ["yes", "no"])
        episode_runner.step_episodes(here, plays, ["no", "yes and yes"])
        assert [play.end for play in plays] == ["done", "done"]
        assert [play.score for play in plays] == [0.5, 0.5]
        assert episode_runner.model_text(plays[1]) == "no\nyes and yes"
        assert [turn["content"] for turn in episode_runner.transcript(plays[0])] == [
            plays[0].first_observation,
            "yes",
            "heard yes of 1",
            "no",
            "heard no of 2",
        ]


def test_the_class_sees_the_columns_that_are_declared_and_equal_rows_begin_alike() -> None:
    with world("Echo") as here:
        first, second, again = episode_runner.start_episodes(here, [*ROWS, ROWS[0]], seed=3)
        assert first.row == {"name": "first"}
        assert first.first_observation == again.first_observation
        assert first.seed != second.seed
        (other,) = episode_runner.start_episodes(here, ROWS[:1], seed=4)
        assert other.seed != first.seed


def test_the_turns_are_bounded_and_then_the_score_is_asked() -> None:
    with world("Echo", {"times": 99}, turns=2) as here:
        (play,) = episode_runner.start_episodes(here, ROWS[:1], seed=1)
        episode_runner.step_episodes(here, [play], ["yes"])
        assert play.end is None
        episode_runner.step_episodes(here, [play], ["yes"])
        assert (play.end, play.score, episode_runner.episode_record(here, play)["solved"]) == (
            "turns",
            1.0,
            True,
        )


@pytest.mark.parametrize(
    ("said", "result"),
    [
        ("raise", "ValueError: it is not in the mood"),
        ("hang", "no reply within 4 s"),
        ("die", "the process exited with status 7"),
        ("babble", "TypeError: an observation must be a str, not int"),
    ],
)
def test_an_environment_that_fails_ends_the_stage_or_counts_as_declared(said: str, result: str) -> None:
    with world("Moody", on_error="fail", seconds=4.0) as here:
        (play,) = episode_runner.start_episodes(here, ROWS[:1], seed=1)
        with pytest.raises(StepError, match="the environment `python` failed at turn 1: ") as raised:
            episode_runner.step_episodes(here, [play], [said])
        assert str(raised.value).endswith(result)
        assert "on_error" in raised.value.advice
    for on_error, score in (("abstain", None), (-0.5, -0.5)):
        with world("Moody", on_error=on_error, seconds=4.0) as here:
            plays = episode_runner.start_episodes(here, ROWS, seed=1)
            episode_runner.step_episodes(here, plays, ["yes", "yes"])
            episode_runner.step_episodes(here, plays, ["yes", said])
            episode_runner.step_episodes(here, plays[:1], ["no"])
            # The other episode was in the same process: it is restored and continues.
            assert (plays[0].end, plays[0].score) == ("done", pytest.approx(2 / 3))
            assert plays[0].observation == "heard no of 3"
            assert (plays[1].end, plays[1].score, plays[1].reason) == ("error", score, result)


def test_a_score_outside_its_range_is_a_failure_of_the_environment() -> None:
    with world("Moody", on_error="abstain", turns=1) as here:
        (play,) = episode_runner.start_episodes(here, ROWS[:1], seed=1)
        episode_runner.step_episodes(here, [play], ["more"])
        assert (play.end, play.score) == ("error", None)
        assert play.reason == "ValueError: the score 5 is outside 0 .. 1"


def test_a_file_that_cannot_be_loaded_is_told_at_once() -> None:
    with world("Nothing") as here, pytest.raises(StepError, match="the file has no class `Nothing`"):
        episode_runner.start_episodes(here, ROWS, seed=1)


def test_episodes_dealt_over_processes_go_as_in_one() -> None:
    found: list[list[Any]] = []
    for processes in (1, 3):
        with world("Echo", processes=processes) as here:
            plays = episode_runner.start_episodes(here, ROWS * 4, seed=1)
            for said in ("yes", "no", "yes"):
                episode_runner.step_episodes(
                    here, plays, [f"{said} {number}" for number in range(len(plays))]
                )
            found.append([(play.messages, play.score) for play in plays])
    assert found[0] == found[1]


def test_tools_are_called_by_name_and_a_call_that_cannot_be_read_is_told_to_the_model() -> None:
    with world("Tools", acts="tools") as here:
        (play,) = episode_runner.start_episodes(here, ROWS[:1], seed=1)
        episode_runner.step_episodes(
            here, [play], ['<tool_call>{"name": "add", "arguments": {"by": 2}}</tool_call>']
        )
        assert play.observation == "add {'by': 2}"
        episode_runner.step_episodes(here, [play], ["<tool_call>add 2</tool_call>"])
        assert play.observation.startswith("error: ")
        assert play.end is None
        episode_runner.step_episodes(here, [play], ["yes"])
        assert (play.end, play.score) == ("done", 1.0)
