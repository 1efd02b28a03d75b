"""Envelopes in a registry: artifacts whose subject is the artifact that they are about.

The client keeps the fallback tag up to date in registries without the API for referrers.
"""

from collections.abc import Iterator

from posttrain.runtime.provenance.dsse_envelope import MAX_ENVELOPE_BYTES
from posttrain.runtime.provenance.provenance_error import ProvenanceError
from posttrain.runtime.registry.oci_manifest import (
    EMPTY_BLOB,
    EMPTY_CONFIG,
    ArtifactManifest,
    Descriptor,
    describe,
    parse_manifest,
)
from posttrain.runtime.registry.oci_reference import Reference
from posttrain.runtime.registry.registry_client import RegistryClient
from posttrain.spec.provenance_statement import PREDICATE_TYPE

# The media type of in-toto for an envelope with a predicate of this kind.
ENVELOPE_TYPE = "application/vnd.in-toto.provenance+dsse"
_PREDICATE_ANNOTATION = "in-toto.io/predicate-type"
_MAX_ENVELOPES = 100


def attach_envelope(client: RegistryClient, subject: Descriptor, data: bytes, media_type: str) -> Reference:
    """Publish an envelope as a referrer of a manifest. Returns its reference. Raises RegistryError."""
    client.upload_bytes(EMPTY_BLOB)
    client.upload_bytes(data)
    manifest = ArtifactManifest(
        artifact_type=media_type,
        config=EMPTY_CONFIG,
        layers=(describe(data, media_type),),
        subject=subject,
        annotations={_PREDICATE_ANNOTATION: PREDICATE_TYPE},
    )
    digest = client.put_manifest(manifest.to_bytes())
    return Reference(host=client.reference.host, name=client.reference.name, digest=digest)


def fetch_envelopes(client: RegistryClient, digest: str, media_type: str) -> Iterator[bytes]:
    """The envelopes about a manifest. Raises RegistryError, and `ProvenanceError` for hostile sizes."""
    listed = client.referrers(digest, media_type)
    if len(listed) > _MAX_ENVELOPES:
        raise ProvenanceError(f"the artifact has {len(listed)} statements, more than {_MAX_ENVELOPES}")
    for one in listed:
        manifest = parse_manifest(client.get_manifest(one.digest).data)
        is_about = manifest.subject is not None and manifest.subject.digest == digest
        for layer in manifest.layers[:1] if is_about else ():
            if layer.size > MAX_ENVELOPE_BYTES:
                limit = f"{MAX_ENVELOPE_BYTES >> 20} MiB"
                raise ProvenanceError(f"a statement about the artifact has more than {limit}")
            yield client.read_blob(layer)
