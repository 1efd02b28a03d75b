"""`recipe path`: print the folder of a stage's product."""

import click

from posttrain.cli.home_option import (
    find_run,
    home_option,
    resolve_home,
    unknown_names_as_usage_errors,
)
from posttrain.cli.invalid_usage import EXIT_ERRORS


@click.command("path")
@click.argument("stage", metavar="STAGE")
@home_option
@click.option(
    "--run", "name", metavar="NAME", help="The run whose name starts with NAME; default: the newest."
)
def command(stage: str, home: str | None, name: str | None) -> None:
    """Print the folder of the product of STAGE. Its files are compared with their digests first."""
    from posttrain.runtime.inspection.run_lookup import DamagedProduct, find_product

    where = resolve_home(home)
    try:
        with unknown_names_as_usage_errors():
            files = find_product(where, find_run(where, name), stage)
    except DamagedProduct as error:
        click.echo(
            f"{error}\n  help: move it aside with `recipe verify --repair`; the next run recreates it",
            err=True,
        )
        raise click.exceptions.Exit(EXIT_ERRORS) from None
    if files is None:
        click.echo(f"`{stage}` has not finished; see `recipe status`", err=True)
        raise click.exceptions.Exit(EXIT_ERRORS)
    click.echo(files)
