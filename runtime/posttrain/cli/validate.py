"""`recipe validate`: everything that is wrong with a recipe, in one go."""

import click

from posttrain.cli.loading import ERRORS, compiled, recipe_file, settings_option, show


@click.command("validate")
@click.argument("path", default=".", metavar="PATH")
@settings_option
def command(path: str, settings: tuple[str, ...], profiles: tuple[str, ...]) -> None:
    """Check the recipe at PATH, a file or a folder that holds recipe.yaml."""
    file = recipe_file(path)
    outcome, _ = compiled(file, settings, profiles)
    if outcome.diagnostics:
        show(outcome.diagnostics, file)
    if outcome.plan is None:
        raise click.exceptions.Exit(ERRORS)
    steps = len(outcome.plan.steps)
    click.echo(f"{file}: {outcome.plan.name} is valid ({steps} step{'s' if steps != 1 else ''})")
