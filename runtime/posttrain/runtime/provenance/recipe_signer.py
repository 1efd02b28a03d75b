"""Who has signed a recipe in a registry, so that its code may run."""

from contextlib import suppress
from pathlib import Path

from posttrain.runtime import atomic_io
from posttrain.runtime.artifacts.artifact_cache import read_cached, write_cached
from posttrain.runtime.provenance.envelope_referrers import fetch_envelopes
from posttrain.runtime.provenance.provenance_error import ProvenanceError
from posttrain.runtime.provenance.verify_artifact import (
    Trust,
    VerifiedArtifact,
    check_recipe,
    choose_statement,
    envelope_type,
)
from posttrain.runtime.registry.oci_manifest import digest_of, parse_manifest
from posttrain.runtime.registry.oci_reference import Reference
from posttrain.runtime.registry.registry_client import RegistryClient
from posttrain.runtime.user_cache import cache_folder


def find_recipe_signer(recipe: Reference, trusted: Trust) -> str:
    """The trusted signer of a recipe artifact that a reference names by its digest.

    The statement that counts stays in the cache: a second use needs no network. Raises `ProvenanceError` if
    there is none, and RegistryError.
    """
    assert recipe.digest is not None, "a signature belongs to a digest"
    try:
        return _verify(recipe, _read_statement(recipe.digest, trusted), trusted).signer
    except ProvenanceError:  # there is none in the cache, or other signers are trusted now
        pass
    with RegistryClient(recipe) as client:
        if read_cached(recipe.digest) is None:
            write_cached(client.get_manifest(recipe.digest).data)
        verified = _verify(
            recipe, list(fetch_envelopes(client, recipe.digest, envelope_type(trusted))), trusted
        )
    with suppress(OSError):  # without a cache, the next use needs the network
        write_cached(verified.envelope)
        atomic_io.write_text(_record_of(recipe.digest, trusted), digest_of(verified.envelope), sync=False)
    return verified.signer


def _verify(recipe: Reference, envelopes: list[bytes], trusted: Trust) -> VerifiedArtifact:
    data = read_cached(recipe.digest or "")
    if data is None:
        raise ProvenanceError(f"{recipe} is not in the cache")
    verified = choose_statement(recipe, parse_manifest(data), envelopes, trusted)
    check_recipe(verified)
    return verified


def _read_statement(digest: str, trusted: Trust) -> list[bytes]:
    """The statement that counted before."""
    try:
        data = read_cached(_record_of(digest, trusted).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return []
    return [] if data is None else [data]


def _record_of(digest: str, trusted: Trust) -> Path:
    kind = digest_of(envelope_type(trusted).encode())[7:15]
    return cache_folder() / "statements" / f"{digest.removeprefix('sha256:')}-{kind}"
