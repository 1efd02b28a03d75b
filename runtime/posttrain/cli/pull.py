"""`recipe pull`: copy a recipe or a product from a registry to a folder."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from posttrain.cli.compile import compile_file, display_path
from posttrain.cli.remote_recipe import fetch_or_exit, registry_errors
from posttrain.runtime.report.number_format import plural

if TYPE_CHECKING:
    from posttrain.runtime.registry.oci_reference import Reference


@click.command("pull")
@click.argument("source", metavar="oci://HOST/NAME:TAG|hf://ORG/NAME")
@click.argument("folder", default=None, required=False, metavar="[DIR]")
@click.option(
    "--max-mb",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    metavar="N",
    help="The largest size of a recipe with its data files, in MiB.",
)
def command(source: str, folder: str | None, max_mb: int) -> None:
    """Copy a recipe, or a product such as a model, to DIR, a new or empty folder; default: the last part of
    its name.

    Nothing of it is executed. `recipe run` needs --trust the first time, if the recipe contains code. An
    interrupted download continues with the next command.
    """
    from posttrain.runtime.registry.oci_reference import is_reference, parse_reference

    if is_reference(source):
        with registry_errors():
            if _pull_product(parse_reference(source), folder):
                return
    _pull_recipe(source, folder, max_mb)


def _pull_product(reference: "Reference", folder: str | None) -> bool:
    """Copy a product; false if the artifact is none."""
    from posttrain.runtime.artifacts.product_pull import is_product, pull_product
    from posttrain.runtime.artifacts.recipe_fetch import is_known
    from posttrain.runtime.registry.registry_client import RegistryClient

    if is_known(reference):
        return False  # it needs no network
    with RegistryClient(reference) as client:
        found = client.get_manifest(reference.version)
        if not is_product(found):
            return False
        target = Path(folder or reference.name.rpartition("/")[2])
        shown = 0
        with click.progressbar(
            length=1, label="reading", file=sys.stderr, hidden=not sys.stderr.isatty()
        ) as bar:

            def advance(done: int, total: int) -> None:
                nonlocal shown
                bar.length = total
                bar.update(done - shown)
                shown = done

            count = pull_product(client, found, target, advance)
    pinned = reference.pinned(found.digest)
    click.echo(f"{display_path(target)} is {pinned}: {plural(count, 'file')} of a product")
    return True


def _pull_recipe(source: str, folder: str | None, max_mb: int) -> None:
    from posttrain.runtime.artifacts.foreign_code import foreign_actions
    from posttrain.runtime.artifacts.recipe_fetch import copy_recipe

    fetched = fetch_or_exit(source, max_mb)
    target = Path(folder or fetched.reference.name.rpartition("/")[2])
    with registry_errors():
        copy_recipe(fetched, target)
    recipe = target / fetched.recipe.relative_to(fetched.folder)
    click.echo(f"{display_path(recipe)} is {fetched.reference}")
    outcome, _ = compile_file(recipe, (), ())
    actions = ["it does not compile here: `recipe validate` shows why"]
    for line in actions if outcome.plan is None else foreign_actions(outcome.plan):
        click.echo(f"  {line}")
