"""`recipe path`: print the folder of a stage's product."""

import click

from posttrain.cli.compile import EXIT_ERRORS, InvalidUsage
from posttrain.cli.home_option import find_run, home_option, resolve_home


@click.command("path")
@click.argument("stage", metavar="STAGE")
@home_option
@click.option(
    "--run", "name", metavar="NAME", help="The run whose name starts with NAME; default: the newest."
)
def command(stage: str, home: str | None, name: str | None) -> None:
    """Print the folder of the product of STAGE."""
    from posttrain.runtime.store.runs import find_step_product, step_ids
    from posttrain.spec.suggestions import hint

    where = resolve_home(home)
    folder = find_run(where, name)
    known = step_ids(folder)
    if stage not in known:
        raise InvalidUsage(
            f"the run {folder.name} has no step `{stage}`; {hint(stage, known, what='steps')[0]}"
        )
    product = find_step_product(where, folder, stage)
    if product is None:
        click.echo(f"`{stage}` has not finished; see `recipe status`", err=True)
        raise click.exceptions.Exit(EXIT_ERRORS)
    click.echo(product.files)
