"""Verifies an artifact in a registry: who signed its provenance, and that the digests match."""

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from posttrain.runtime.artifacts import media_types
from posttrain.runtime.artifacts.artifact_paths import shown
from posttrain.runtime.artifacts.product_artifact import KEY_ANNOTATION
from posttrain.runtime.artifacts.recipe_artifact import HUB_FOLDER
from posttrain.runtime.provenance.create_statement import differing_parts
from posttrain.runtime.provenance.dsse_envelope import parse_envelope
from posttrain.runtime.provenance.envelope_referrers import ENVELOPE_TYPE, fetch_envelopes
from posttrain.runtime.provenance.provenance_error import ProvenanceError
from posttrain.runtime.provenance.published_steps import file_subjects
from posttrain.runtime.provenance.sigstore_bundle import BUNDLE_TYPE, TrustedIdentity, verify_bundle
from posttrain.runtime.provenance.ssh_keygen import TrustedKeys, verify_envelope
from posttrain.runtime.registry.oci_manifest import TITLE, ArtifactManifest, parse_manifest
from posttrain.runtime.registry.oci_reference import Reference
from posttrain.runtime.registry.registry_client import RegistryClient
from posttrain.spec.document_json import DocumentError
from posttrain.spec.provenance_statement import Statement, statement_from_json
from posttrain.spec.record import record

# Whose signatures count.
Trust = TrustedKeys | TrustedIdentity
_ADVICE = "do not use this artifact; tell its publisher"


@record(kw_only=True)
class VerifiedArtifact:
    """An artifact with a statement that a trusted signer signed."""

    # With its digest.
    reference: Reference
    manifest: ArtifactManifest
    statement: Statement
    # The principal and the fingerprint of the key.
    signer: str
    # The envelope or the bundle with the statement.
    envelope: bytes

    @property
    def files(self) -> dict[str, str]:
        """The files of the product with their sha256, as signed."""
        return file_subjects(self.statement, self.reference.digest)


def verify_signer(reference: Reference, trusted: Trust) -> VerifiedArtifact:
    """Find a statement about an artifact that a trusted signer signed.

    Raises `ProvenanceError` if there is none, with the reason for each, and RegistryError.
    """
    with RegistryClient(reference) as client:
        found = client.get_manifest(reference.version)
        pinned = reference.pinned(found.digest)
        manifest = parse_manifest(found.data)
        envelopes = list(fetch_envelopes(client, found.digest, envelope_type(trusted)))
    return choose_statement(pinned, manifest, envelopes, trusted)


def envelope_type(trusted: Trust) -> str:
    """The media type of the envelopes that can have a trusted signature."""
    return ENVELOPE_TYPE if isinstance(trusted, TrustedKeys) else BUNDLE_TYPE


def choose_statement(
    pinned: Reference, manifest: ArtifactManifest, envelopes: Iterable[bytes], trusted: Trust
) -> VerifiedArtifact:
    """The first statement about an artifact that a trusted signer signed. Raises `ProvenanceError`."""
    errors: list[ProvenanceError] = []
    for data in envelopes:
        try:
            signer, payload = _verify_signature(data, trusted)
            statement = _parse(payload)
            _check_subject(statement, pinned)
            return VerifiedArtifact(
                reference=pinned, manifest=manifest, statement=statement, signer=signer, envelope=data
            )
        except ProvenanceError as error:
            errors.append(error)
    if not errors:
        advice = "ask its publisher to sign it with `recipe sign`"
        raise ProvenanceError(f"{pinned} has no signed provenance", advice)
    raise ProvenanceError("; ".join(map(str, errors)), errors[0].advice)


def _verify_signature(data: bytes, trusted: Trust) -> tuple[str, bytes]:
    """The signer and the payload of an envelope or a bundle."""
    if isinstance(trusted, TrustedIdentity):
        return verify_bundle(data, trusted)
    envelope = parse_envelope(data)
    return verify_envelope(envelope, trusted), envelope.payload


def _parse(payload: bytes) -> Statement:
    try:
        return statement_from_json(payload)
    except DocumentError as error:
        raise ProvenanceError(f"the signed statement is not valid: {error}", error.advice) from None


def _check_subject(statement: Statement, pinned: Reference) -> None:
    # The artifact is the first subject. The others are its files, and one can be a manifest itself.
    digests = [f"sha256:{one.digest.get('sha256')}" for one in statement.subject[:1]]
    if pinned.digest not in digests:
        raise ProvenanceError(f"the signed statement is about another artifact than {pinned}", _ADVICE)


def check_signed_files(verified: VerifiedArtifact) -> None:
    """Compare the files in the statement about a product with the digests in the artifact.

    Raises `ProvenanceError` with the first file that differs.
    """
    if _is_recipe(verified):
        return
    layers = {layer.annotations.get(TITLE, ""): layer.digest for layer in verified.manifest.layers}
    published = {name: digest for name, digest in layers.items() if not name.startswith(HUB_FOLDER + "/")}
    for name, digest in verified.files.items():
        if layers.get(name) != f"sha256:{digest}":
            raise ProvenanceError(f"the signed file {name} is not in the artifact", _ADVICE)
    for name in published:
        if name not in verified.files:
            raise ProvenanceError(f"the file {shown(name)} of the artifact is not signed", _ADVICE)


def verify_blobs(verified: VerifiedArtifact, on_file: Callable[[str, int], None]) -> None:
    """Download every blob and compare it with its digest.

    `on_file` gets the name and the size of each. Raises RegistryError.
    """
    with RegistryClient(verified.reference) as client, tempfile.TemporaryDirectory() as scratch:
        for blob in {
            one.digest: one for one in (verified.manifest.config, *verified.manifest.layers)
        }.values():
            path = Path(scratch) / "blob"
            client.download_blob(blob, path)
            path.unlink()
            on_file(blob.annotations.get(TITLE, blob.digest), blob.size)


def check_recipe(verified: VerifiedArtifact) -> None:
    """Check that the statement names the recipe of the artifact. Raises `ProvenanceError`."""
    chosen = verified.statement.predicate.build_definition.external_parameters
    if _is_recipe(verified) != (chosen.step is None):
        is_, said = ("recipe", "product") if _is_recipe(verified) else ("product", "recipe")
        raise ProvenanceError(f"the artifact is a {is_}, and its statement is about a {said}", _ADVICE)
    subject = verified.manifest.subject
    named = verified.reference.digest if _is_recipe(verified) else subject.digest if subject else None
    if named != f"sha256:{chosen.recipe.digest.get('sha256')}":
        raise ProvenanceError("the artifact and its statement name different recipes", _ADVICE)


def _is_recipe(verified: VerifiedArtifact) -> bool:
    return verified.manifest.artifact_type == media_types.RECIPE_ARTIFACT


def check_key(verified: VerifiedArtifact, key: str | None, parts: Mapping[str, str]) -> None:
    """Compare the key of a statement with the key of the recomputed plan (None if it has no such step).

    Raises `ProvenanceError` with the parts that differ.
    """
    definition = verified.statement.predicate.build_definition
    derived, step = definition.internal_parameters, definition.external_parameters.step
    if derived is None:
        raise ProvenanceError("the statement is about a product, and names no key", _ADVICE)
    if verified.manifest.annotations.get(KEY_ANNOTATION) != derived.key:
        raise ProvenanceError("the artifact and its statement name different keys", _ADVICE)
    if key is None:
        raise ProvenanceError(f"the plan of the published recipe has no step `{step}`", _ADVICE)
    if key == derived.key:
        return
    names = differing_parts(parts, derived.key_parts)
    if not names:
        raise ProvenanceError("the key in the statement does not follow from its own parts", _ADVICE)
    raise ProvenanceError(
        f"the key of `{step}` does not follow from the recipe and its lock: {', '.join(names)} differ"
        + ("s" if len(names) == 1 else ""),
        f"it was published by posttrain {_version(verified)}: verify it with that release"
        if all(name == "extensions" or name.startswith("input.") for name in names)
        else _ADVICE,
    )


def _version(verified: VerifiedArtifact) -> str:
    return verified.statement.predicate.run_details.builder.version.get("posttrain", "of another version")
