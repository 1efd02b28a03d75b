"""`recipe validate`: report all errors of a recipe."""

import click

from posttrain.cli.compile import compile_file, recipe_file, settings_option
from posttrain.cli.diagnostics_output import diagnostics_option, limit_option, report_diagnostics
from posttrain.cli.invalid_usage import EXIT_ERRORS
from posttrain.spec.diagnostic import has_errors


@click.command("validate")
@click.argument("path", default=".", metavar="PATH")
@settings_option
@diagnostics_option("--format")
@limit_option
def command(path: str, settings: tuple[str, ...], profiles: tuple[str, ...], form: str, limit: int) -> None:
    """Check the recipe at PATH, a file or a folder that holds recipe.yaml, and all its profiles."""
    file = recipe_file(path)
    outcome, _ = compile_file(file, settings, profiles, check_profiles=True)
    report_diagnostics(outcome.diagnostics, file, form, limit=limit)
    if outcome.plan is None or has_errors(outcome.diagnostics):
        raise click.exceptions.Exit(EXIT_ERRORS)
    if form == "text":
        steps = len(outcome.plan.steps)
        click.echo(f"{file}: {outcome.plan.name} is valid ({steps} step{'s' if steps != 1 else ''})")
