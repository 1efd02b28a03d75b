"""`recipe validate`: report every error of recipes."""

from pathlib import Path

import click

from posttrain.cli.compile import compile_file, settings_option
from posttrain.cli.diagnostics_output import diagnostics_option, limit_option, report_diagnostics
from posttrain.cli.invalid_usage import EXIT_ERRORS
from posttrain.cli.recipe_paths import check_one_document, find_recipes, recipe_paths
from posttrain.spec.diagnostic import has_errors


@click.command("validate")
@recipe_paths
@settings_option
@diagnostics_option("--format")
@limit_option
def command(
    paths: tuple[str, ...],
    changed_files: bool,
    settings: tuple[str, ...],
    profiles: tuple[str, ...],
    form: str,
    limit: int,
) -> None:
    """Check the recipes at PATH, files or folders that hold recipe.yaml, and all their profiles."""
    files = find_recipes(paths, changed_files)
    check_one_document(files, form)
    good = [_validate(file, settings, profiles, form, limit) for file in files]
    if not all(good):
        raise click.exceptions.Exit(EXIT_ERRORS)


def _validate(
    file: Path, settings: tuple[str, ...], profiles: tuple[str, ...], form: str, limit: int
) -> bool:
    """Print the diagnostics of a recipe, and return whether it is valid."""
    outcome, _ = compile_file(file, settings, profiles, check_profiles=True, needs_plan=False)
    report_diagnostics(outcome.diagnostics, file, form, limit=limit)
    if has_errors(outcome.diagnostics):
        return False
    if form == "text":
        click.echo(f"{file} is valid")
    return True
