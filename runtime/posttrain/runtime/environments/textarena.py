"""The one-player games of TextArena."""

import sys
from pathlib import Path

from posttrain.runtime.environments.environment_protocol import EpisodeFactory, EpisodeResources
from posttrain.runtime.environments.episode_processes import EpisodeProcessSpec, pooled_episodes
from posttrain.spec.column_types import Interval
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Environment, Params


class TextArena(Params):
    game: str = field(description="The game, as TextArena names it: GuessTheNumber-v0, Sudoku-v0 and so on.")
    version: str = field(default="0.7.4", description="The release of TextArena that plays it.")
    low: float = field(default=-1.0, description="The least reward of the game; -1 is an invalid move.")
    high: float = field(default=1.0, description="The greatest reward of the game: then it is solved.")
    python: str | None = field(
        default=None, description="The interpreter that has TextArena; this one if not given."
    )
    processes: int = field(default=1, ge=1, le=64, description="Processes that the episodes are dealt over.")


EXTENSION = Environment(
    name="textarena",
    summary="A one-player game of TextArena, begun by the row's column `seed`; the score is the game's"
    " reward, and 0 for a game that is not over.",
    params=TextArena,
    neutral=("python", "processes"),
    columns=lambda _: {"seed": "integer"},
    range=lambda params: Interval(params.low, params.high),
)


def run(params: TextArena, site: EpisodeResources) -> EpisodeFactory:
    spec = EpisodeProcessSpec(
        python=params.python or sys.executable,
        file=Path(__file__).with_name("textarena_game.py"),
        name="Game",
        params={"game": params.game, "version": params.version},
        seconds=site.seconds,
    )
    return pooled_episodes(spec, params.processes)
