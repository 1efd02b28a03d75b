"""Compiles the recipe that a path names, and prints its diagnostics.

The compiler is imported by the functions, because the options of a command are read without it.
"""

import gc
import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.invalid_usage import InvalidUsage
from posttrain.spec.url_passwords import mask_url_passwords

if TYPE_CHECKING:
    from posttrain.compiler.pipeline import CompileResult
    from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
    from posttrain.spec.diagnostic import Diagnostic


def settings_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--set and --profile, for every command that compiles."""
    command = click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="PATH=VALUE",
        help="Set a value of the recipe, such as stages.grpo.params.max_steps=100.",
    )(command)
    return click.option(
        "--profile", "profiles", multiple=True, metavar="NAME", help="Apply a profile of the recipe."
    )(command)


def locked_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--locked, for commands that build a plan."""
    return click.option(
        "--locked",
        is_flag=True,
        help="Use the revisions of recipe.lock, and reject what it does not contain.",
    )(command)


def recipe_file(path: str) -> Path:
    """The recipe that a path names: a file, a folder that holds recipe.yaml, or a recipe in a registry."""
    if "://" in path:
        from posttrain.cli.remote_recipe import fetch_or_exit

        return fetch_or_exit(path).recipe
    return local_recipe_file(path)


def local_recipe_file(path: str) -> Path:
    """The recipe that a path names, for commands that write next to it."""
    if "://" in path:
        shown = mask_url_passwords(path)
        raise InvalidUsage(f"{shown} cannot be changed: copy it to a folder with `recipe pull`")
    location = Path(path)
    found = location / "recipe.yaml" if location.is_dir() else location
    if not found.is_file():
        what = f"the folder {path} holds no recipe.yaml" if location.is_dir() else f"no such file: {path}"
        raise InvalidUsage(f"{what}; pass a recipe file, or a folder that holds recipe.yaml")
    return found


def compile_file(
    path: Path,
    settings: Sequence[str],
    profiles: Sequence[str],
    locked: bool = False,
    allow_image_tags: bool = False,
    check_profiles: bool = False,
    needs_plan: bool = True,
) -> "tuple[CompileResult, CompileRequest]":
    """Compile a recipe file. With `check_profiles`, its other profiles are checked too. Without
    `needs_plan`, the result has only the diagnostics."""
    from dataclasses import replace

    from posttrain.compiler.pipeline import compile_recipe

    request = compile_request(path, settings, profiles, locked, allow_image_tags)
    request = replace(request, check_profiles=check_profiles, needs_plan=needs_plan)
    with _without_garbage_collection():
        return compile_recipe(request), request


@contextmanager
def _without_garbage_collection() -> Generator[None]:
    """The compiler makes many objects and hardly any cycles: searching for cycles takes some percent of the
    time of a large recipe, and frees nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def compile_request(
    path: Path,
    settings: Sequence[str],
    profiles: Sequence[str],
    locked: bool = False,
    allow_image_tags: bool = False,
) -> "CompileRequest":
    """The input of the compiler for a recipe file."""
    from posttrain.cli.recipe_folder import RecipeFolder
    from posttrain.compiler.parsing.parse_codes import MAX_BYTES
    from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
    from posttrain.runtime.catalog import CATALOG
    from posttrain.runtime.installed_stack import installed_stack

    pairs: list[tuple[str, str]] = []
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise InvalidUsage(f"--set takes PATH=VALUE, such as seed=1; got `{mask_url_passwords(setting)}`")
        pairs.append((name.strip(), value))
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidUsage(f"{path} cannot be read: {error.strerror}") from None
    files = RecipeFolder(path.parent)
    return CompileRequest(
        source=SourceFile(path.name, data),
        catalog=CATALOG,
        read=files.read,
        digest=files.digest,
        read_prefix=files.read_prefix,
        read_problem=files.problem,
        neighbors=files.neighbors,
        read_artifact=files.read_artifact,
        stack=installed_stack(),
        profiles=tuple(profiles),
        overrides=tuple(pairs),
        lock=_read_lock(path) if locked else None,
        allow_image_tags=allow_image_tags,
    )


def lock_file(recipe: Path) -> Path:
    """The lock file of a recipe, in the same folder: recipe.lock for recipe.yaml."""
    return recipe.with_suffix(".lock")


def _read_lock(recipe: Path) -> "SourceFile":
    from posttrain.compiler.text.compile_request import SourceFile
    from posttrain.spec.lockfile import MAX_LOCK_BYTES

    path = lock_file(recipe)
    if not path.is_file():
        message = f"no such file: {display_path(path)}; create it with `recipe lock {display_path(recipe)}`"
        raise click.ClickException(message)
    try:
        with path.open("rb") as file:
            return SourceFile(path.name, file.read(MAX_LOCK_BYTES + 1))
    except OSError as error:
        raise click.ClickException(f"{display_path(path)} cannot be read: {error.strerror}") from None


# The default limit on printed diagnostics: a text of thousands hides the first ones.
MAX_DIAGNOSTICS = 100


def print_diagnostics(diagnostics: "Sequence[Diagnostic]", path: Path, limit: int = MAX_DIAGNOSTICS) -> None:
    """Print diagnostics to standard error, at most `limit` unless it is 0."""
    from posttrain.compiler.render.text_diagnostics import Styler, render_text

    texts = {path.name: _source_lines(path)}
    for diagnostic in diagnostics:
        for span in (diagnostic.span, *(label.span for label in diagnostic.labels)):
            file = path.parent / span.file
            if span.file not in texts and file.is_file():
                texts[span.file] = _source_lines(file)
    names = {name: display_path(path.parent / name) for name in texts}
    styler = Styler(use_color(sys.stderr), _line_width(sys.stderr))
    click.echo(render_text(diagnostics, texts, names, styler, limit), err=True, nl=False)


def display_path(path: Path) -> str:
    """The path relative to the working directory, if it is inside it."""
    shown = os.path.relpath(path)
    return str(path) if Path(shown).parts[:1] == ("..",) else shown


def _source_lines(path: Path) -> list[str]:
    from posttrain.compiler.parsing.parse_codes import MAX_BYTES

    with path.open("rb") as file:
        return file.read(MAX_BYTES).decode("utf-8-sig", "replace").splitlines()


def _line_width(stream: Any) -> int:
    """The width of a source line: the width of the terminal without the line number, or 120."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return max(40, columns - 8) if columns else 120


def use_color(stream: Any) -> bool:
    """Use color only on terminals, and not with NO_COLOR."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
