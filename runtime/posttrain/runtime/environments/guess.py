"""A number guessing game, with a hint after each guess."""

import re

from pydantic import Field

from posttrain.runtime.environments.environment_protocol import Action, EpisodeFactory, EpisodeResources, Row
from posttrain.spec.extension import Environment, Params


class Guess(Params):
    low: int = Field(default=1, description="The smallest possible number.")
    high: int = Field(default=9, description="The largest possible number.")
    below: str = Field(default="lower", description="The observation after a guess above the number.")
    above: str = Field(default="higher", description="The observation after a guess below the number.")
    invalid_message: str = Field(
        default="no number", description="The observation after a turn without a number."
    )

    def check(self) -> None:
        if self.low >= self.high:
            raise ValueError("`low` must be less than `high`")


EXTENSION = Environment(
    name="guess",
    summary="Guess the number in the row's column `target`. Each guess is answered with a hint, lower or"
    " higher. The score is 1 if the number is found, else 0.",
    params=Guess,
    columns=lambda _: {"target": "integer"},
)
_NUMBER = re.compile(r"-?\d{1,18}")


def run(params: Guess, resources: EpisodeResources) -> EpisodeFactory:
    return EpisodeFactory(open=lambda: GuessEpisode(params))


class GuessEpisode:
    def __init__(self, params: Guess) -> None:
        self._params = params
        self._target = 0
        self._found = False

    def reset(self, row: Row, seed: int) -> str:
        self._target = row["target"]
        if not self._params.low <= self._target <= self._params.high:
            raise ValueError(
                f"the target {self._target} is outside {self._params.low} .. {self._params.high}"
            )
        return ""

    def step(self, action: Action) -> tuple[str, bool]:
        match = _NUMBER.search(str(action))
        if match is None:
            return self._params.invalid_message, False
        guess = int(match.group())
        self._found = guess == self._target
        if self._found:
            return "", True
        return self._params.below if guess > self._target else self._params.above, False

    def score(self) -> float:
        return 1.0 if self._found else 0.0

    def close(self) -> None:
        """Nothing to release."""
