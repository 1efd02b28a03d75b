"""The option --on: a place of the user's configuration."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.invalid_usage import EXIT_ERRORS, InvalidUsage

if TYPE_CHECKING:
    from posttrain.spec.place import Place

_EXAMPLE = "cluster: {engine: slurm, partition: gpu}"


def place_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--on",
        "place_name",
        metavar="PLACE",
        help="The cluster on which the steps run: a name in $RECIPE_PLACES, or in posttrain/places.yaml in"
        " the"
        " user's configuration folder (~/.config). Default: this machine.",
    )(command)


def places_file() -> Path:
    """The file of the user's places. It need not exist."""
    named = os.environ.get("RECIPE_PLACES")
    if named:
        return Path(named)
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "posttrain" / "places.yaml"


def find_place(name: str) -> "Place":
    """The place of this name. Without it, the errors of the file are printed."""
    from posttrain.cli.diagnostics_output import report_diagnostics
    from posttrain.compiler.parsing.places_file import parse_places
    from posttrain.compiler.text.compile_request import SourceFile
    from posttrain.spec.suggestions import hint

    file = places_file()
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InvalidUsage(
            f"cannot read {file} for --on {name}: {error.strerror}; declare the place there, such as\n "
            f" {_EXAMPLE}"
        ) from None
    found = parse_places(SourceFile(file.name, data))
    if name in found.places:
        return found.places[name]
    report_diagnostics(found.diagnostics, file, "text", err=True)
    if name in found.invalid or not (found.places or found.invalid):
        raise click.exceptions.Exit(EXIT_ERRORS)
    raise InvalidUsage(f"{file} has no place `{name}`; {hint(name, found.places, what='places')[0]}")
