"""A number to be found by guessing: each guess is answered by where the number lies."""

import re

from posttrain.runtime.environments.environment_protocol import Action, EpisodeFactory, EpisodeResources, Row
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Environment, Params


class Guess(Params):
    low: int = field(default=1, description="The least number that there may be.")
    high: int = field(default=9, description="The greatest number that there may be.")
    below: str = field(default="lower", description="The answer to a guess above the number.")
    above: str = field(default="higher", description="The answer to a guess below it.")
    invalid_message: str = field(default="no number", description="The answer to a turn without a number.")

    def check(self) -> None:
        if self.low >= self.high:
            raise ValueError("`low` must lie below `high`")


EXTENSION = Environment(
    name="guess",
    summary="Find the number in the row's column `target` by guesses that are answered lower or higher; the"
    " score is 1 when it is found.",
    params=Guess,
    columns=lambda _: {"target": "integer"},
)
_NUMBER = re.compile(r"-?\d{1,18}")


def run(params: Guess, site: EpisodeResources) -> EpisodeFactory:
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
                f"the target {self._target} does not lie in {self._params.low} .. {self._params.high}"
            )
        return ""

    def step(self, action: Action) -> tuple[str, bool]:
        said = _NUMBER.search(str(action))
        if said is None:
            return self._params.invalid_message, False
        guess = int(said.group())
        self._found = guess == self._target
        if self._found:
            return "", True
        return self._params.below if guess > self._target else self._params.above, False

    def score(self) -> float:
        return 1.0 if self._found else 0.0

    def close(self) -> None:
        """It holds nothing."""
