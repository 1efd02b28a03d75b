"""The environment of AppWorld tasks: the model uses a person's apps by writing code.

AppWorld needs another version of pydantic, so it runs in a separate interpreter, with one process per task.
"""

from pathlib import Path

from pydantic import Field

from posttrain.runtime.environments.environment_protocol import EpisodeFactory, EpisodeResources
from posttrain.runtime.environments.episode_processes import EpisodeProcessSpec, isolated_episodes
from posttrain.spec.extension import Environment, Params


class AppWorld(Params):
    python: str = Field(
        description="The path of a Python interpreter with AppWorld installed (`appworld install`)."
    )
    root: str = Field(
        description="AppWorld's root: the folder that contains `data` (`appworld download data`)."
    )
    version: str = Field(
        default="0.1.3.post1", description="The required version of AppWorld. Another one is an error."
    )
    processes: int = Field(
        default=2, ge=1, le=64, description="The number of tasks that run code at the same time."
    )


EXTENSION = Environment(
    name="appworld",
    summary="The AppWorld task in the row's column `task_id`. Each turn is Python code that calls the apps."
    " The score is the share of the task's tests that pass.",
    params=AppWorld,
    neutral=("python", "root", "processes"),
    columns=lambda _: {"task_id": "text"},
    interpreter=lambda params: (params.python, ("appworld",)),
)


def run(params: AppWorld, resources: EpisodeResources) -> EpisodeFactory:
    spec = EpisodeProcessSpec(
        python=params.python,
        file=Path(__file__).with_name("appworld_task.py"),
        name="AppWorldEpisode",
        params={"version": params.version},
        environment={"APPWORLD_ROOT": params.root},
        seconds=resources.seconds,
    )
    return isolated_episodes(spec, params.processes)
