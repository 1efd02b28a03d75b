"""One game of TextArena, as the process of episodes plays it: it needs TextArena, and nothing of ours.

Games draw from Python's one generator of random numbers. Each has its own state of it, so that games
played side by side do not disturb each other.
"""

import random
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

_GAME = -1  # who speaks, where it is no player


class Game:
    def __init__(self, game: str, version: str) -> None:
        from importlib.metadata import version as installed

        if installed("textarena") != version:
            raise RuntimeError(f"TextArena {installed('textarena')} is installed, and {version} is asked for")
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
            over, _ = self._env.step(action=text)
        return self._new_messages(), over

    def score(self) -> float:
        state = self._env.state
        if state.rewards is None:
            return 0.0
        reward = state.rewards[0]
        if isinstance(reward, str) and state.game_info[0]["invalid_move"]:
            return -1.0  # some games hand over reward and reason the wrong way round
        return float(reward)

    def _new_messages(self) -> str:
        """What the game has said since: the player's own words are left out."""
        state = self._env.state
        said = state.get_current_player_observation()
        return "\n".join(message.strip() for speaker, message, _ in said if speaker == _GAME).strip()

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
