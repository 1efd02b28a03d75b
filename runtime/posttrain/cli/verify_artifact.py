"""`recipe verify oci://...`: signer, digests, and the key, computed again from the recipe."""

import sys
from typing import TYPE_CHECKING

import click

from posttrain.cli.published_recipe import PublishedRecipe, read_published_recipe
from posttrain.cli.remote_recipe import registry_errors
from posttrain.runtime.report.number_format import plural

if TYPE_CHECKING:
    from posttrain.runtime.provenance.verify_artifact import Trust, VerifiedArtifact


def verify_and_print(address: str, trusted: "Trust") -> None:
    """Verify an artifact and print what holds. Exits at the first check that fails."""
    from posttrain.runtime.provenance.verify_artifact import check_signed_files, verify_blobs, verify_signer
    from posttrain.runtime.registry.oci_reference import parse_reference

    with registry_errors():
        verified = verify_signer(parse_reference(address), trusted)
        click.echo(f"signer: {verified.signer}")
        check_signed_files(verified)
        size = sum(layer.size for layer in verified.manifest.layers)
        hidden = not sys.stderr.isatty() or size < 1 << 28
        with click.progressbar(length=max(size, 1), label="reading", file=sys.stderr, hidden=hidden) as bar:
            verify_blobs(verified, lambda _, done: bar.update(done))
        click.echo(f"digests: {plural(len(verified.manifest.layers), 'file')}, {size:,} bytes")
        recipe = recompute_plan(verified)
    step = verified.statement.predicate.build_definition.external_parameters.step
    click.echo(f"recipe: {recipe.plan.name}, {recipe.digest}")
    if step is not None:
        click.echo(f"key: {recipe.plan.step(step).key} of `{step}` follows from the recipe and its lock")
    click.echo(f"{verified.reference} is verified")


def recompute_plan(verified: "VerifiedArtifact") -> PublishedRecipe:
    """Compile the recipe of a statement with its lock, and check that it has the signed key.

    Raises RegistryError and `ProvenanceError`.
    """
    from posttrain.runtime.provenance.verify_artifact import check_key, check_recipe

    check_recipe(verified)
    chosen = verified.statement.predicate.build_definition.external_parameters
    digest = f"sha256:{chosen.recipe.digest.get('sha256')}"
    recipe = read_published_recipe(verified.reference, digest, chosen.profiles, chosen.settings)
    if chosen.step is not None:
        step = next((one for one in recipe.plan.steps if one.id == chosen.step), None)
        check_key(verified, step.key if step else None, step.key_parts if step else {})
    return recipe
