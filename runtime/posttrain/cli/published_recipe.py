"""The recipe behind a published artifact: fetched, and compiled with its lock, as on any other machine."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from posttrain.cli.compile import compile_request, lock_file
from posttrain.cli.diagnostics_output import report_diagnostics
from posttrain.cli.invalid_usage import EXIT_ERRORS
from posttrain.spec.record import record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from posttrain.runtime.artifacts.recipe_fetch import FetchedRecipe
    from posttrain.runtime.registry.oci_reference import Reference
    from posttrain.spec.lockfile import EntryId
    from posttrain.spec.plan import Plan


@record(kw_only=True)
class PublishedRecipe:
    """A recipe in the cache with its lock, and its plan with the libraries of the lock."""

    file: "Path"
    digest: str
    lock: "Mapping[EntryId, str]"
    plan: "Plan"


def read_published_recipe(
    repository: "Reference", digest: str, profiles: Sequence[str], settings: Sequence[str]
) -> PublishedRecipe:
    """Fetch a recipe by its digest and compile it. Exits after errors; raises RegistryError."""
    from posttrain.runtime.artifacts.recipe_fetch import fetch_recipe

    fetched = fetch_recipe(replace(repository, tag=None, digest=digest))
    return _compile(fetched, digest, profiles, settings)


def _compile(
    fetched: "FetchedRecipe", digest: str, profiles: Sequence[str], settings: Sequence[str]
) -> PublishedRecipe:
    from posttrain.compiler.pipeline import compile_recipe
    from posttrain.runtime.lockfile.lock_update import read_lock
    from posttrain.spec.lockfile import LockfileError
    from posttrain.spec.pinned_versions import PINNED_VERSIONS

    file = fetched.recipe
    if not lock_file(file).is_file():
        raise click.ClickException(
            "the recipe was published without a lock, so its key is not reproducible; its publisher creates"
            " one with `recipe lock`, and publishes again"
        )
    try:
        lock = read_lock(lock_file(file)).values
    except LockfileError as error:
        raise click.ClickException(f"the lock of the published recipe is not valid: {error}") from None
    stack = {**PINNED_VERSIONS, **{name: value for (kind, name), value in lock.items() if kind == "stack"}}
    request = compile_request(file, settings, profiles, locked=True)
    outcome = compile_recipe(replace(request, stack=stack))
    if outcome.plan is None:
        report_diagnostics(outcome.diagnostics, file, "text", err=True)
        click.echo("the published recipe does not compile with its lock", err=True)
        raise click.exceptions.Exit(EXIT_ERRORS)
    return PublishedRecipe(file=file, digest=digest, lock=lock, plan=outcome.plan)
