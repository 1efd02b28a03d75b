"""`recipe fmt`: format recipes without changing comments or meaning."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from posttrain.cli.compile import local_recipe_file, use_color
from posttrain.cli.invalid_usage import EXIT_ERRORS, InvalidUsage

if TYPE_CHECKING:
    from posttrain.compiler.format.format_recipe import FormatResult
    from posttrain.compiler.text.compile_request import SourceFile


@click.command("fmt")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--check", is_flag=True, help="Write nothing; exit with status 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Write nothing; print the changes.")
def command(paths: tuple[str, ...], check: bool, diff: bool) -> None:
    """Format the recipes at PATH: files, folders that hold recipe.yaml, or - for standard input."""
    good = [_format_file(path, check, diff) for path in paths or (".",)]
    if not all(good):
        raise click.exceptions.Exit(EXIT_ERRORS)


def _format_file(path: str, check: bool, diff: bool) -> bool:
    """Format a file; with `check`, return whether it is formatted already."""
    from posttrain.compiler.format.format_recipe import format_recipe
    from posttrain.compiler.text.compile_request import SourceFile

    if path == "-":
        source, file = SourceFile("-", sys.stdin.buffer.read()), None
    else:
        file = local_recipe_file(path)
        source = SourceFile(str(file), _read(file))
    outcome = format_recipe(source)
    if outcome.text is None:
        _print_refusal(outcome, source)
        return False
    changed = outcome.text.encode() != source.data
    if diff:
        _print_diff(source, outcome.text)
    elif check and changed:
        click.echo(f"{source.name}: not formatted; run `recipe fmt`")
    elif file is None:
        click.echo(outcome.text, nl=False)
    elif changed and not check:
        _write(file, outcome.text)
    return not (check and changed)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidUsage(f"{file} cannot be read: {error.strerror}") from None


def _write(file: Path, text: str) -> None:
    from posttrain.runtime.atomic_io import write_text

    target = file.resolve()  # do not replace a symbolic link by a file
    mode = target.stat().st_mode
    try:
        write_text(target, text)
        target.chmod(mode)
    except OSError as error:
        raise InvalidUsage(f"{file} cannot be written: {error.strerror}") from None
    click.echo(f"{file}: formatted")


def _print_refusal(outcome: "FormatResult", source: "SourceFile") -> None:
    from posttrain.compiler.render.text_diagnostics import Styler, render_text

    if outcome.reason:
        click.echo(f"{source.name}: not changed: {outcome.reason}", err=True)
        return
    texts = {source.name: source.data.decode("utf-8-sig", "replace").splitlines()}
    styler = Styler(use_color(sys.stderr))
    click.echo(render_text(outcome.diagnostics, texts, {}, styler), err=True, nl=False)


def _print_diff(source: "SourceFile", text: str) -> None:
    from difflib import unified_diff

    before = source.data.decode("utf-8-sig").splitlines(keepends=True)
    after = text.splitlines(keepends=True)
    click.echo("".join(unified_diff(before, after, source.name, f"{source.name} (formatted)")), nl=False)
