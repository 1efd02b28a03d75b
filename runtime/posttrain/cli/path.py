"""`recipe path`: where a stage's product lies."""

import click

from posttrain.cli.homes import chosen_run, home_of, home_option
from posttrain.cli.loading import ERRORS, Misuse


@click.command("path")
@click.argument("stage", metavar="STAGE")
@home_option
@click.option("--run", "name", metavar="NAME", help="A run by the beginning of its name; else the newest.")
def command(stage: str, home: str | None, name: str | None) -> None:
    """Print the folder that holds the product of STAGE."""
    from posttrain.compiler.diagnosis.suggest import hint
    from posttrain.runtime.keeping.runs import product_of, step_ids

    where = home_of(home)
    folder = chosen_run(where, name)
    known = step_ids(folder)
    if stage not in known:
        raise Misuse(f"the run {folder.name} has no step `{stage}`; {hint(stage, known, what='steps')[0]}")
    product = product_of(where, folder, stage)
    if product is None:
        click.echo(f"`{stage}` has not finished; see `recipe status`", err=True)
        raise click.exceptions.Exit(ERRORS)
    click.echo(product.files)
