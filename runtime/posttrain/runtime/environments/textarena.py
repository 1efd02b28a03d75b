"""The environment of single-player TextArena games."""

import sys
from pathlib import Path

from pydantic import Field

from posttrain.runtime.environments.environment_protocol import EpisodeFactory, EpisodeResources
from posttrain.runtime.environments.episode_processes import EpisodeProcessSpec, pooled_episodes
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Environment, Params


class TextArena(Params):
    game: str = Field(
        description="The name of the game in TextArena, such as GuessTheNumber-v0 or Sudoku-v0."
    )
    version: str = Field(
        default="0.7.4", description="The required version of TextArena. Another one is an error."
    )
    low: float = Field(default=-1.0, description="The lowest reward of the game; -1 for an invalid move.")
    high: float = Field(
        default=1.0, description="The highest reward of the game. An episode with this reward is solved."
    )
    python: str | None = Field(
        default=None,
        description="The path of a Python interpreter with TextArena installed. By default, the current one.",
    )
    processes: int = Field(default=1, ge=1, le=64, description="The number of processes that run games.")


EXTENSION = Environment(
    name="textarena",
    summary="A single-player game of TextArena, seeded by the row's column `seed`. The score is the game's"
    " reward, or 0 if the game is not over.",
    params=TextArena,
    neutral=("python", "processes"),
    columns=lambda _: {"seed": "integer"},
    range=lambda params: Interval(params.low, params.high),
    interpreter=lambda params: (params.python, ("textarena",)),
)


def run(params: TextArena, resources: EpisodeResources) -> EpisodeFactory:
    spec = EpisodeProcessSpec(
        python=params.python or sys.executable,
        file=Path(__file__).with_name("textarena_game.py"),
        name="Game",
        params={"game": params.game, "version": params.version},
        seconds=resources.seconds,
    )
    return pooled_episodes(spec, params.processes)
