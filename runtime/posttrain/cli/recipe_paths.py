"""The recipes that the arguments of a command name, for commands that take several."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from posttrain.cli.compile import recipe_file
from posttrain.cli.invalid_usage import InvalidUsage


def recipe_paths(command: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments, and --changed-files, for hooks that pass the changed files."""
    command = click.option(
        "--changed-files",
        is_flag=True,
        help="Each PATH is any file: check the recipe.yaml in its folder, or in the closest folder above it."
        " Files without one are skipped.",
    )(command)
    return click.argument("paths", nargs=-1, metavar="[PATH]...")(command)


def find_recipes(
    paths: Sequence[str], changed_files: bool, find: Callable[[str], Path] = recipe_file
) -> list[Path]:
    """The recipe files that the arguments name."""
    if not changed_files:
        return [find(path) for path in paths or (".",)]
    found = (_recipe_above(Path(path)) for path in paths)
    return list(dict.fromkeys(file for file in found if file is not None))


def _recipe_above(path: Path) -> Path | None:
    return next((file for folder in path.parents if (file := folder / "recipe.yaml").is_file()), None)


def check_one_document(files: Sequence[Path], form: str) -> None:
    """Refuse several recipes in a format that is one document."""
    if len(files) > 1 and form in ("json", "sarif"):
        raise InvalidUsage(f"--format {form} prints one document, for one recipe; got {len(files)}")
