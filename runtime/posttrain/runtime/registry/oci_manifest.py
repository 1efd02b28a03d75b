"""Manifests and indexes of OCI artifacts: canonical JSON out, checked values in."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from posttrain.runtime.registry.oci_reference import is_digest
from posttrain.runtime.registry.registry_errors import ContentError
from posttrain.spec.canonical_json import canonical_json
from posttrain.spec.document_json import DocumentError, parse_json_object
from posttrain.spec.record import record

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
TITLE = "org.opencontainers.image.title"
# The limit of the specification; registries refuse larger manifests.
MAX_MANIFEST_BYTES = 4 << 20
MAX_LAYERS = 10_000
_ADVICE = "do not use this artifact, or ask its publisher for another one"


@record(kw_only=True)
class Descriptor:
    """A reference to a blob or a manifest by its digest."""

    media_type: str
    digest: str
    size: int
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    # Of a manifest.
    artifact_type: str = ""

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"mediaType": self.media_type, "digest": self.digest, "size": self.size}
        if self.artifact_type:
            found["artifactType"] = self.artifact_type
        if self.annotations:
            found["annotations"] = dict(self.annotations)
        return found


@record(kw_only=True)
class ArtifactManifest:
    """The manifest of an artifact: a configuration and layers."""

    artifact_type: str
    config: Descriptor
    layers: tuple[Descriptor, ...]
    subject: Descriptor | None = None
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])

    def to_bytes(self) -> bytes:
        """Canonical JSON: equal artifacts have equal digests."""
        found: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": self.config.to_json(),
            "layers": [layer.to_json() for layer in self.layers],
        }
        if self.artifact_type:
            found["artifactType"] = self.artifact_type
        if self.subject is not None:
            found["subject"] = self.subject.to_json()
        if self.annotations:
            found["annotations"] = dict(self.annotations)
        return canonical_json(found).encode()


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def describe(data: bytes, media_type: str, **annotations: str) -> Descriptor:
    """The descriptor of a blob in memory."""
    return Descriptor(media_type=media_type, digest=digest_of(data), size=len(data), annotations=annotations)


EMPTY_BLOB = b"{}"
EMPTY_CONFIG = describe(EMPTY_BLOB, EMPTY_TYPE)


def parse_manifest(data: bytes) -> ArtifactManifest:
    """The manifest of an artifact. Raises `ContentError` for anything else."""
    found = _parse_object(data)
    layers = found.get("layers")
    if found.get("mediaType", MANIFEST_TYPE) != MANIFEST_TYPE or not isinstance(layers, list):
        media_type = str(found.get("mediaType", "another document"))[:100]
        raise ContentError(f"it is not an artifact but {media_type}", _ADVICE)
    listed = cast(list[Any], layers)
    if len(listed) > MAX_LAYERS:
        raise ContentError(f"its manifest has {len(listed)} layers, more than {MAX_LAYERS}", _ADVICE)
    config = parse_descriptor(found.get("config"))
    subject = found.get("subject")
    artifact_type = found.get("artifactType")
    return ArtifactManifest(
        artifact_type=artifact_type if isinstance(artifact_type, str) else config.media_type,
        config=config,
        layers=tuple(parse_descriptor(one) for one in listed),
        subject=None if subject is None else parse_descriptor(subject),
        annotations=_texts(found.get("annotations")),
    )


def parse_index(data: bytes) -> list[Descriptor]:
    """The manifests of an index. Raises `ContentError` for anything else."""
    listed = _parse_object(data).get("manifests")
    if not isinstance(listed, list):
        raise ContentError("the list of referrers is not an index", _ADVICE)
    return [parse_descriptor(one) for one in cast(list[Any], listed)]


def index_bytes(manifests: Sequence[Descriptor]) -> bytes:
    entries = [one.to_json() for one in manifests]
    return canonical_json({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries}).encode()


def parse_descriptor(value: Any) -> Descriptor:
    fields = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    media_type, digest, size = (fields.get(name) for name in ("mediaType", "digest", "size"))
    is_size = isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 53
    if not isinstance(media_type, str) or not isinstance(digest, str) or not is_digest(digest) or not is_size:
        raise ContentError("a descriptor of its manifest has no media type, sha256 digest or size", _ADVICE)
    artifact_type = fields.get("artifactType")
    return Descriptor(
        media_type=media_type,
        digest=digest,
        size=cast(int, size),
        annotations=_texts(fields.get("annotations")),
        artifact_type=artifact_type if isinstance(artifact_type, str) else "",
    )


def _parse_object(data: bytes) -> dict[str, Any]:
    try:
        return parse_json_object(data)
    except DocumentError as error:
        raise ContentError(f"its manifest is not valid: {error}", _ADVICE) from None


def _texts(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    fields = cast(dict[str, Any], value) if isinstance(value, dict) else None
    if fields is None or not all(isinstance(one, str) for one in fields.values()):
        raise ContentError("the annotations of its manifest are not texts", _ADVICE)
    return cast(dict[str, str], fields)
