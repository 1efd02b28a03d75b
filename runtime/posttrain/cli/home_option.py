"""The option --home: the folder of runs and products."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from posttrain.cli.compile import InvalidUsage
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.runs import last_run, list_runs


def home_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--home",
        metavar="DIR",
        help="The folder of runs and products; default: $RECIPE_HOME, or .recipe.",
    )(command)


def resolve_home(path: str | None) -> Home:
    return Home(Path(path or os.environ.get("RECIPE_HOME") or ".recipe").absolute())


def find_run(home: Home, name: str | None) -> Path:
    """The run whose name starts with `name`; without a name, the newest run."""
    if name is None:
        found = last_run(home)
        if found is None:
            raise InvalidUsage(f"no runs in {home.root}; start one with `recipe run PATH`, or set --home")
        return found
    matching = [folder for folder in list_runs(home) if folder.name.startswith(name)]
    if len(matching) != 1:
        what = "no run" if not matching else "more than one run"
        raise InvalidUsage(f"{what} in {home.root} has a name that starts with `{name}`")
    return matching[0]
