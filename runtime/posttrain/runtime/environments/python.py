"""A user-defined environment: a class in a file next to the recipe."""

import math
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from posttrain.runtime.environments.environment_protocol import EpisodeFactory, EpisodeResources
from posttrain.runtime.environments.episode_processes import EpisodeProcessSpec, pooled_episodes
from posttrain.spec.column_types import Interval, check_column_types
from posttrain.spec.extension import Environment, Params
from posttrain.spec.field_types import Items, checked_by


class Python(Params):
    call: str = Field(
        pattern=r"^[^:]+\.py:[A-Za-z_]\w*$",
        description="The class, as FILE.py:CLASS. The path is relative to the recipe. Each episode is an"
        " instance with the methods reset(row, seed) -> observation, step(action) -> (observation, done) and"
        " score() -> number.",
    )
    with_: dict[str, Any] = Field(default={}, alias="with", description="The keyword arguments of the class.")
    columns: Annotated[dict[str, str], checked_by(check_column_types)] = Field(
        default={},
        description="The columns that episodes read, with their types. reset() gets a row with only these.",
    )
    acts: Literal["text", "tools"] = Field(
        default="text",
        description="The actions that step() receives. `text`: the text of a turn. `tools`: {name, arguments}"
        " of each tool call of a turn, or the text of a turn without calls.",
    )
    low: float = Field(default=0.0, description="The lowest possible score.")
    high: float = Field(
        default=1.0, description="The highest possible score. An episode with this score is solved."
    )
    modules: Items[str] = Field(
        default=(), description="Other files that the class imports, relative to the recipe."
    )
    processes: int = Field(default=1, ge=1, le=64, description="The number of processes that run episodes.")

    def check(self) -> None:
        if self.low >= self.high or not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise ValueError("`low` must be less than `high`, and both must be finite")

    @property
    def files(self) -> list[str]:
        return [self.call.rpartition(":")[0], *self.modules]


EXTENSION = Environment(
    name="python",
    summary="Your own Python class. Episodes run in separate processes that are killed at a timeout.",
    params=Python,
    neutral=("processes",),
    action_format=lambda params: params.acts,
    columns=lambda params: params.columns,
    range=lambda params: Interval(params.low, params.high),
    files=lambda params: params.files,
)


def run(params: Python, resources: EpisodeResources) -> EpisodeFactory:
    paths: list[Path] = [resources.files[name] for name in params.files]
    spec = EpisodeProcessSpec(
        python=sys.executable,
        file=paths[0],
        name=params.call.rpartition(":")[2],
        params=params.with_,
        folders=tuple(dict.fromkeys(str(path.parent) for path in paths)),
        seconds=resources.seconds,
    )
    return pooled_episodes(spec, params.processes)
