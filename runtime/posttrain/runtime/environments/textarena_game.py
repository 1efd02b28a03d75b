"""One game of TextArena. Runs in TextArena's interpreter, without this package.

Games use Python's global random number generator. Each game has a separate state of it, so that concurrent
games do not affect each other.
"""

import random
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

_GAME = -1  # the speaker id of the game itself


class Game:
    def __init__(self, game: str, version: str) -> None:
        from importlib.metadata import version as installed

        if installed("textarena") != version:
            raise RuntimeError(f"TextArena {installed('textarena')} is installed, but {version} is required")
        self._name = game
        self._env: Any = None
        self._rng_state: Any = None

    def reset(self, row: dict[str, Any], seed: int) -> str:
        with self._own_rng_state():
            self._env = import_module("textarena").make(self._name)
            self._env.reset(num_players=1, seed=row["seed"])
        return self._new_messages()

    def step(self, text: str) -> tuple[str, bool]:
        with self._own_rng_state():
            done, _ = self._env.step(action=text)
        return self._new_messages(), done

    def score(self) -> float:
        state = self._env.state
        if state.rewards is None:
            return 0.0
        reward = state.rewards[0]
        if isinstance(reward, str) and state.game_info[0]["invalid_move"]:
            return -1.0  # some games swap reward and reason
        return float(reward)

    def _new_messages(self) -> str:
        """The game's messages since the last call, without the player's."""
        state = self._env.state
        messages = state.get_current_player_observation()
        return "\n".join(message.strip() for speaker, message, _ in messages if speaker == _GAME).strip()

    @contextmanager
    def _own_rng_state(self) -> Generator[None]:
        before = random.getstate()
        if self._rng_state is not None:
            random.setstate(self._rng_state)
        try:
            yield
        finally:
            self._rng_state = random.getstate()
            random.setstate(before)
