"""The option --home: the folder of runs and products."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.invalid_usage import InvalidUsage
from posttrain.runtime.store.home import Home

if TYPE_CHECKING:
    from posttrain.spec.place import Place


def home_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--home",
        metavar="DIR",
        help="The folder of runs and products; default: $RECIPE_HOME, or .recipe.",
    )(command)


def resolve_home(path: str | None, place: "Place | None" = None) -> Home:
    """The home at a path, or that of a place. It is resolved, because Docker rejects `..` in the paths of
    mounts, and because the names of containers and jobs contain the home."""
    of_place = None if place is None else place.home
    return Home(Path(path or os.environ.get("RECIPE_HOME") or of_place or ".recipe").resolve())


def find_run(home: Home, name: str | None) -> Path:
    """The run whose name starts with `name`; without a name, the newest run."""
    from posttrain.runtime.inspection import run_lookup

    with unknown_names_as_usage_errors():
        return run_lookup.find_run(home, name)


@contextmanager
def unknown_names_as_usage_errors() -> Generator[None]:
    """Report a name that the home or a run does not have as an invalid command line."""
    from posttrain.runtime.inspection.run_lookup import UnknownName

    try:
        yield
    except UnknownName as error:
        raise InvalidUsage(str(error)) from None
