"""Recipes of others, fetched from a registry on the command line."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from posttrain.cli.invalid_usage import InvalidUsage

if TYPE_CHECKING:
    from posttrain.runtime.artifacts.recipe_fetch import FetchedRecipe


@contextmanager
def registry_errors() -> Generator[None]:
    """Report an error of a registry, or in a reference, in one message."""
    from posttrain.runtime.errors import StepError
    from posttrain.runtime.registry.oci_reference import InvalidReference

    try:
        yield
    except InvalidReference as error:
        raise InvalidUsage(str(error)) from None
    except StepError as error:
        help = f"\n  help: {error.advice}" if error.advice else ""
        raise click.ClickException(f"{error}{help}") from None


def fetch_or_exit(address: str, max_mb: int | None = None) -> "FetchedRecipe":
    """Fetch the recipe of a reference. The digest of a tag is shown."""
    from posttrain.runtime.artifacts.hub_artifacts import SCHEME, parse_hub_reference
    from posttrain.runtime.artifacts.recipe_artifact import DEFAULT_MAX_MB
    from posttrain.runtime.artifacts.recipe_fetch import fetch_hub_recipe, fetch_recipe
    from posttrain.runtime.registry.oci_reference import parse_reference

    limit = DEFAULT_MAX_MB if max_mb is None else max_mb
    with registry_errors():
        if address.startswith(SCHEME):
            fetched = fetch_hub_recipe(parse_hub_reference(address), limit)
        else:
            fetched = fetch_recipe(parse_reference(address), limit)
    if str(fetched.reference) != address:
        click.echo(f"{address} is {fetched.reference}", err=True)
    return fetched
