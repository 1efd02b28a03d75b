"""The home of runs, as the command line names it."""

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
        help="Where runs and products live: .recipe here, or $RECIPE_HOME, when not given.",
    )(command)


def resolve_home(given: str | None) -> Home:
    return Home(Path(given or os.environ.get("RECIPE_HOME") or ".recipe").absolute())


def find_run(home: Home, name: str | None) -> Path:
    """The run of this name, or the newest."""
    if name is None:
        found = last_run(home)
        if found is None:
            raise InvalidUsage(
                f"there is no run in {home.root}; start one with `recipe run PATH`, or give --home"
            )
        return found
    matching = [folder for folder in list_runs(home) if folder.name.startswith(name)]
    if len(matching) != 1:
        what = "no run" if not matching else "more than one run"
        raise InvalidUsage(f"{what} in {home.root} begins with `{name}`")
    return matching[0]
