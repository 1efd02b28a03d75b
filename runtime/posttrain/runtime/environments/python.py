"""An environment of the user's own: a class in a file beside the recipe."""

import math
import sys
from pathlib import Path
from typing import Any, Literal

from posttrain.runtime.environments.environment_protocol import EpisodeFactory, EpisodeResources
from posttrain.runtime.environments.episode_processes import EpisodeProcessSpec, pooled_episodes
from posttrain.spec.column_types import Interval, check_column_types
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Environment, Params


class Python(Params):
    call: str = field(
        pattern=r"^[^:]+\.py:[A-Za-z_]\w*$",
        description="FILE.py:CLASS, the file beside the recipe. Each episode is an instance with reset(row,"
        " seed) -> observation, step(action) -> (observation, whether it is over) and score() -> number.",
    )
    with_: dict[str, Any] = field(
        default={}, key="with", description="What the class is made with, by the names of its arguments."
    )
    columns: dict[str, str] = field(
        default={},
        check=check_column_types,
        description="The columns that its rows must have, with their types; a row has no others.",
    )
    acts: Literal["text", "tools"] = field(
        default="text",
        description="What step() is given: a turn's text, or {name, arguments} of each tool that a turn"
        " calls, and the text of a turn that calls none.",
    )
    low: float = field(default=0.0, description="The least score that it gives.")
    high: float = field(default=1.0, description="The greatest score that it gives: then it is solved.")
    modules: list[str] = field(default=[], description="Further files beside the recipe that it imports.")
    processes: int = field(default=1, ge=1, le=64, description="Processes that the episodes are dealt over.")

    def check(self) -> None:
        if self.low >= self.high or not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise ValueError("`low` must lie below `high`")

    @property
    def files(self) -> list[str]:
        return [self.call.rpartition(":")[0], *self.modules]


EXTENSION = Environment(
    name="python",
    summary="A class of yours; its episodes run in processes of their own, which are killed when they hang.",
    params=Python,
    neutral=("processes",),
    action_format=lambda params: params.acts,
    columns=lambda params: params.columns,
    range=lambda params: Interval(params.low, params.high),
    files=lambda params: params.files,
)


def run(params: Python, site: EpisodeResources) -> EpisodeFactory:
    paths: list[Path] = [site.files[name] for name in params.files]
    spec = EpisodeProcessSpec(
        python=sys.executable,
        file=paths[0],
        name=params.call.rpartition(":")[2],
        params=params.with_,
        folders=tuple(dict.fromkeys(str(path.parent) for path in paths)),
        seconds=site.seconds,
    )
    return pooled_episodes(spec, params.processes)
