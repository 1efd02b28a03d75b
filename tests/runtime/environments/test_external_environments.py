"""Environments in separate interpreters: TextArena games, and an AppWorld task.

Neither can be installed with this package. POSTTRAIN_TEST_TEXTARENA and POSTTRAIN_TEST_APPWORLD are the paths
of interpreters that have them. AppWorld's needs `appworld install`, but none of its data.
"""

import os
import subprocess
from pathlib import Path

import pytest
from tests.conftest import require_service

from posttrain.runtime.environments import appworld, textarena
from posttrain.runtime.environments.environment_protocol import EpisodeError, EpisodeFactory, EpisodeResources

pytestmark = pytest.mark.slow
_GAMES = ("GuessTheNumber-v0", "FrozenLake-v0", "TowerOfHanoi-v0", "Sudoku-v0", "Minesweeper-v0")
_MOVES = ("[10]", "[right]", "[A C]", "[1 1 1]", "[4]")


def interpreter(part: str, variable: str, how: str) -> str:
    found = os.environ.get(variable)
    return require_service(
        part, found if found and Path(found).exists() else None, f"set {variable}: {how}", apart=True
    )


@pytest.fixture(scope="module")
def arena() -> str:
    how = "an interpreter with textarena==0.7.4"
    return interpreter("TextArena", "POSTTRAIN_TEST_TEXTARENA", how)


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The interpreter, and a root with one task of these tests."""
    how = "an interpreter with appworld==0.1.3.post1, after `appworld install`"
    python = interpreter("AppWorld", "POSTTRAIN_TEST_APPWORLD", how)
    root = tmp_path_factory.mktemp("appworld")
    maker = Path(__file__).with_name("make_appworld_root.py")
    subprocess.run([python, str(maker), str(root)], check=True, cwd=root)
    return python, str(root)


def games(python: str, game: str) -> EpisodeFactory:
    return textarena.run(textarena.TextArena(game=game, python=python), EpisodeResources(seconds=120))


def played(python: str, game: str, seeds: tuple[int, ...]) -> list[tuple[list[str], float]]:
    """Concurrent games with the same moves. Returns the observations and the reward of each."""
    place = games(python, game)
    episodes = [place.open() for _ in seeds]
    said = [[episode.reset({"seed": seed}, 0)] for episode, seed in zip(episodes, seeds, strict=True)]
    over = [False for _ in seeds]
    for move in _MOVES:
        for number, episode in enumerate(episodes):
            if not over[number]:
                observation, over[number] = episode.step(move)
                said[number].append(observation)
    scores = [episode.score() for episode in episodes]
    place.close()
    return list(zip(said, scores, strict=True))


@pytest.mark.parametrize("game", _GAMES)
def test_a_game_goes_the_same_alone_and_beside_others(arena: str, game: str) -> None:
    first, second = played(arena, game, (1, 2))
    assert played(arena, game, (1,)) == [first]
    assert first[0][0]
    assert all(-1.0 <= score <= 1.0 for _, score in (first, second))


def test_a_number_is_found_by_what_the_game_says(arena: str) -> None:
    episode = games(arena, "GuessTheNumber-v0").open()
    low, high, over = 1, 20, False
    assert "between 1 and 20" in episode.reset({"seed": 3}, 0)
    while not over:
        guess = (low + high) // 2
        observation, over = episode.step(f"[{guess}]")
        low, high = (guess + 1, high) if "higher" in observation else (low, guess - 1)
    assert episode.score() == 1.0


def test_an_invalid_move_counts_as_one_whatever_the_game_says_of_it(arena: str) -> None:
    episode = games(arena, "Countdown-v0").open()
    episode.reset({"seed": 1}, 0)
    over = False
    while not over:
        _, over = episode.step("I pass")
    assert episode.score() == -1.0


@pytest.mark.parametrize(
    ("game", "why"), [("Chess-v1", "not found"), ("ConnectFour-v0", "The number of players has to be 2")]
)
def test_a_game_that_cannot_be_played_alone_says_why(arena: str, game: str, why: str) -> None:
    with pytest.raises(EpisodeError, match=why):
        games(arena, game).open().reset({"seed": 1}, 0)


def test_another_release_is_not_taken_for_this_one(arena: str) -> None:
    params = textarena.TextArena(game="Sudoku-v0", python=arena, version="0.6.0")
    with pytest.raises(EpisodeError, match=r"0\.6\.0 is required"):
        textarena.run(params, EpisodeResources(seconds=60)).open().reset({"seed": 1}, 0)


def test_a_task_is_acted_in_by_code_that_calls_the_apps(apps: tuple[str, str]) -> None:
    python, root = apps
    place = appworld.run(appworld.AppWorld(python=python, root=root), EpisodeResources(seconds=300))
    episode, idle = place.open(), place.open()
    assert "titled Shopping" in episode.reset({"task_id": "note_1"}, 0)
    idle.reset({"task_id": "note_1"}, 0)
    said, over = episode.step(
        "I log in first.\n```python\nlogin = apis.simple_note.login(username='ida.berg@example.com',"
        " password='sesame')\n"
        "note = dict(title='Shopping', content='milk', access_token=login['access_token'])\n"
        "print(apis.simple_note.create_note(**note)['message'])\n```"
    )
    assert (said, over) == ("Note created.", False)
    said, over = episode.step("1 / 0")
    assert "ZeroDivisionError" in said
    assert episode.step("apis.supervisor.complete_task(answer=4)")[1]
    assert episode.score() == 1.0
    assert idle.step("apis.supervisor.complete_task(answer=5)")[1]
    assert idle.score() == 0.0  # each has a separate world
    episode.close()
    idle.close()
    with pytest.raises(EpisodeError, match="note_2"):
        place.open().reset({"task_id": "note_2"}, 0)
    place.close()
    assert not any((Path(root) / "experiments" / "outputs").glob("*/tasks/*/dbs"))
