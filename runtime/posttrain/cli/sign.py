"""`recipe sign`: sign how a published product was made."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from posttrain.cli.compile import settings_option
from posttrain.cli.home_option import home_option, resolve_home
from posttrain.cli.invalid_usage import InvalidUsage
from posttrain.cli.published_recipe import PublishedRecipe, read_published_recipe
from posttrain.cli.remote_recipe import registry_errors

if TYPE_CHECKING:
    from posttrain.runtime.provenance.create_statement import Source
    from posttrain.runtime.registry.oci_manifest import Descriptor
    from posttrain.runtime.registry.oci_reference import Reference
    from posttrain.runtime.registry.registry_client import RegistryClient
    from posttrain.runtime.store.home import Home
    from posttrain.spec.provenance_statement import Statement


@click.command("sign")
@click.argument("artifact", metavar="oci://HOST/NAME")
@click.option(
    "--key",
    metavar="FILE",
    help="The SSH key to sign with: a private key, or a public key whose private key an agent has.",
)
@click.option(
    "--sigstore",
    is_flag=True,
    help="Sign with the identity of a CI job instead of a key; needs the extra `sigstore`.",
)
@settings_option
@home_option
def command(
    artifact: str,
    key: str | None,
    sigstore: bool,
    settings: tuple[str, ...],
    profiles: tuple[str, ...],
    home: str | None,
) -> None:
    """Sign the provenance of a product or a recipe that `recipe push` has published, and attach it.

    Of a product, the home must have the record; --set and --profile are those of its run. The published
    recipe must produce the key of the product, with its lock.
    """
    from posttrain.runtime.registry.oci_reference import parse_reference
    from posttrain.runtime.registry.registry_client import RegistryClient

    if sigstore == (key is not None):
        raise InvalidUsage("name either --key FILE or --sigstore")
    with registry_errors():
        reference = parse_reference(artifact)
        with RegistryClient(reference) as client:
            statement, subject = _create_statement(client, resolve_home(home), profiles, settings)
            attached, signer = _sign_and_attach(client, statement, subject, key)
    click.echo(f"signed by {signer}", err=True)
    click.echo(attached)


def _create_statement(
    client: "RegistryClient", home: "Home", profiles: tuple[str, ...], settings: tuple[str, ...]
) -> "tuple[Statement, Descriptor]":
    """The statement about the artifact, and the descriptor of the artifact."""
    from posttrain.runtime.artifacts import media_types
    from posttrain.runtime.provenance.create_statement import recipe_statement
    from posttrain.runtime.registry.oci_manifest import parse_manifest

    found = client.get_manifest(client.reference.version)
    if parse_manifest(found.data).artifact_type != media_types.RECIPE_ARTIFACT:
        pinned = client.reference.pinned(found.digest)
        return _product_statement(pinned, found.data, home, profiles, settings), found.descriptor
    if profiles or settings:
        raise InvalidUsage("--profile and --set belong to a product, and this is a recipe")
    recipe = read_published_recipe(client.reference, found.digest, (), ())
    return recipe_statement(_source(recipe, (), ()), client.reference.repository), found.descriptor


def _product_statement(
    artifact: "Reference", data: bytes, home: "Home", profiles: tuple[str, ...], settings: tuple[str, ...]
) -> "Statement":
    from posttrain.runtime.artifacts.product_artifact import KEY_ANNOTATION, parse_product_artifact
    from posttrain.runtime.provenance.create_statement import artifact_subject, product_statement
    from posttrain.runtime.registry.oci_manifest import parse_manifest

    contents = parse_product_artifact(data)
    if contents.subject is None or artifact.digest is None:
        raise click.ClickException(
            f"{artifact} was published without its recipe: run `recipe push` where the recipe is unchanged"
        )
    recipe = read_published_recipe(artifact, contents.subject.digest, profiles, settings)
    key = parse_manifest(data).annotations.get(KEY_ANNOTATION)
    step = next((one for one in recipe.plan.steps if one.key == key), None)
    if step is None:
        raise click.ClickException(
            f"the published recipe has no step with the key {str(key)[:10]} of the product; sign with the"
            " same --profile and --set as the run, and run with --locked"
        )
    subject = artifact_subject(artifact.repository, artifact.digest)
    files = {name: layer.digest.removeprefix("sha256:") for name, layer in contents.files.items()}
    source = _source(recipe, profiles, settings)
    return product_statement(recipe.plan, step, home, source, subject, files)


def _source(recipe: PublishedRecipe, profiles: tuple[str, ...], settings: tuple[str, ...]) -> "Source":
    from posttrain.runtime.provenance.create_statement import Source

    return Source(
        name=recipe.plan.name,
        digest=recipe.digest,
        lock=recipe.lock,
        profiles=profiles,
        settings=settings,
    )


def _sign_and_attach(
    client: "RegistryClient", statement: "Statement", subject: "Descriptor", key: str | None
) -> "tuple[Reference, str]":
    """Attach the signed statement. Returns its reference and the signer."""
    from posttrain.runtime.provenance.dsse_envelope import Envelope
    from posttrain.runtime.provenance.envelope_referrers import ENVELOPE_TYPE, attach_envelope
    from posttrain.runtime.provenance.ssh_keygen import sign_envelope
    from posttrain.spec.provenance_statement import statement_to_json

    payload = statement_to_json(statement)
    if key is None:
        from posttrain.runtime.provenance.sigstore_bundle import BUNDLE_TYPE, sign_bundle

        bundle, signer = sign_bundle(payload)
        return attach_envelope(client, subject, bundle, BUNDLE_TYPE), signer
    envelope = sign_envelope(Envelope(payload=payload, signatures=()), Path(key))
    attached = attach_envelope(client, subject, envelope.to_bytes(), ENVELOPE_TYPE)
    return attached, envelope.signatures[0].key_id
