"""Tasks of AppWorld: a day of a person's apps, acted in by writing code.

AppWorld needs a pydantic that cannot stand beside ours, so it has an interpreter of its own. It plays
one task a process.
"""

from pathlib import Path

from posttrain.runtime.environments.environment_protocol import EpisodeFactory, EpisodeResources
from posttrain.runtime.environments.episode_processes import EpisodeProcessSpec, isolated_episodes
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Environment, Params


class AppWorld(Params):
    python: str = field(description="The interpreter that has AppWorld installed (`appworld install`).")
    root: str = field(
        description="AppWorld's root: the folder that holds its `data` (`appworld download data`)."
    )
    version: str = field(default="0.1.3.post1", description="The release of AppWorld that plays the tasks.")
    processes: int = field(
        default=2, ge=1, le=64, description="Tasks that compute at the same time; each has a process."
    )


EXTENSION = Environment(
    name="appworld",
    summary="The AppWorld task that the row's column `task_id` names. Each turn is Python code that calls the"
    " apps; the score is the share of the task's tests that pass.",
    params=AppWorld,
    neutral=("python", "root", "processes"),
    columns=lambda _: {"task_id": "text"},
)


def run(params: AppWorld, site: EpisodeResources) -> EpisodeFactory:
    spec = EpisodeProcessSpec(
        python=params.python,
        file=Path(__file__).with_name("appworld_task.py"),
        name="AppWorldEpisode",
        params={"version": params.version},
        environment={"APPWORLD_ROOT": params.root},
        seconds=site.seconds,
    )
    return isolated_episodes(spec, params.processes)
