"""`recipe explain`: the page of a diagnostic code."""

import click

from posttrain.cli.loading import Misuse


@click.command("explain")
@click.argument("code", metavar="CODE")
def command(code: str) -> None:
    """Explain a diagnostic, such as PT0201, with a wrong and a right example."""
    from posttrain.compiler.codes import all_codes
    from posttrain.compiler.render.page import page
    from posttrain.compiler.suggest import hint

    known = {found.id: found for found in all_codes()}
    chosen = known.get(code.upper())
    if chosen is None:
        raise Misuse(f"there is no code `{code}`; {hint(code.upper(), known, what='codes')[0]}")
    click.echo(page(chosen), nl=False)
