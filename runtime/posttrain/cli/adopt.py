"""`recipe adopt`: accept an older product for a stage whose environment changed, and record the reason."""

import click

from posttrain.cli.compile import recipe_file, settings_option
from posttrain.cli.diagnostics_output import compile_or_exit
from posttrain.cli.home_option import home_option, resolve_home
from posttrain.cli.invalid_usage import EXIT_ERRORS, InvalidUsage


@click.command("adopt")
@click.argument("stages", nargs=-1, required=True, metavar="STAGE...")
@click.option(
    "--recipe",
    "path",
    default=".",
    metavar="PATH",
    help="The recipe; default: recipe.yaml in the current folder.",
)
@click.option(
    "--because",
    required=True,
    metavar="TEXT",
    help="Why the older product is acceptable; recorded with the product.",
)
@settings_option
@home_option
def command(
    stages: tuple[str, ...],
    path: str,
    because: str,
    settings: tuple[str, ...],
    profiles: tuple[str, ...],
    home: str | None,
) -> None:
    """Accept older products of STAGE... where only the environment or extension versions differ."""
    file = recipe_file(path)
    plan = compile_or_exit(file, settings, profiles).plan
    assert plan is not None, "a recipe that compiles has a plan"
    where = resolve_home(home)
    from posttrain.runtime.execution.adopt_stages import adopt_stages
    from posttrain.runtime.execution.run_errors import SelectionError

    try:
        adoptions = adopt_stages(plan, where, stages, because, file)
    except SelectionError as error:
        raise InvalidUsage(str(error)) from None
    for one in adoptions:
        match one.outcome:
            case "adopted":
                click.echo(f"{one.step}: {one.reason}")
            case "unnecessary":
                click.echo(f"{one.step}: nothing to adopt: its product already exists")
            case "refused":
                click.echo(f"{one.step}: not adopted; {one.reason}", err=True)
    if any(one.outcome == "refused" for one in adoptions):
        raise click.exceptions.Exit(EXIT_ERRORS)
