"""Artifacts that are ready to be pushed, and the push: blobs first, then the manifest."""

import hashlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path

from posttrain.runtime import atomic_io
from posttrain.runtime.registry.blob_upload import Blob
from posttrain.runtime.registry.oci_manifest import MANIFEST_TYPE, TITLE, Descriptor, describe, digest_of
from posttrain.runtime.registry.oci_reference import Reference
from posttrain.runtime.registry.registry_client import RegistryClient
from posttrain.runtime.user_cache import cache_folder
from posttrain.spec.record import record

_MOUNTED_BYTES = 1 << 20  # smaller blobs are sent faster than mounted
# A registry writes and hashes a blob in one thread: several blobs at a time are faster.
_PARALLEL_UPLOADS = 4


@record(kw_only=True)
class PackedArtifact:
    """The manifest of an artifact, and all blobs that it names."""

    manifest: bytes
    blobs: tuple[Blob, ...]

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)

    @property
    def size(self) -> int:
        return sum(blob.size for blob in self.blobs)


@record(kw_only=True)
class Pushed:
    """A published artifact, and how much of it was sent."""

    # With its digest.
    reference: Reference
    descriptor: Descriptor
    sent_bytes: int
    existing_bytes: int


def bytes_blob(data: bytes) -> Blob:
    return Blob(digest=digest_of(data), size=len(data), data=data)


def file_blob(path: Path) -> Blob:
    """The blob of a file whose digest is not known."""
    return Blob(digest=f"sha256:{atomic_io.sha256_file(path)}", size=path.stat().st_size, path=path)


def file_layer(
    blob: Blob, media_type: str, title: str, annotations: Mapping[str, str] | None = None
) -> Descriptor:
    """The descriptor of a file, with its path as title."""
    return Descriptor(
        media_type=media_type,
        digest=blob.digest,
        size=blob.size,
        annotations={TITLE: title, **(annotations or {})},
    )


def push_artifact(
    client: RegistryClient, packed: PackedArtifact, tags: Iterable[str | None] = (None,)
) -> Pushed:
    """Push the blobs that the registry does not have, and then the manifest with the tags."""
    target = client.reference
    sent = _upload_blobs(client, {blob.digest: blob for blob in packed.blobs}.values())
    existing = sum({blob.digest: blob.size for blob in packed.blobs}.values()) - sent
    digest = ""
    for tag in tags:
        digest = client.put_manifest(packed.manifest, tag=tag)
    return Pushed(
        reference=target.pinned(digest),
        descriptor=describe(packed.manifest, MANIFEST_TYPE),
        sent_bytes=sent,
        existing_bytes=existing,
    )


def _upload_blobs(client: RegistryClient, blobs: Iterable[Blob]) -> int:
    """Upload the blobs that the registry does not have. Returns how many bytes were sent."""
    with ThreadPoolExecutor(_PARALLEL_UPLOADS, thread_name_prefix="upload") as pool:
        uploads = [pool.submit(_upload_blob, client, blob) for blob in blobs]
        try:
            return sum(upload.result() for upload in as_completed(uploads))
        except BaseException:  # the first error, or an interruption: the others need not wait for large files
            client.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _upload_blob(client: RegistryClient, blob: Blob) -> int:
    target = client.reference
    sent = client.upload_blob(blob, _known_repositories(target, blob))
    _remember_repository(target, blob)
    return blob.size if sent else 0


def _known_repositories(target: Reference, blob: Blob) -> list[str]:
    """A repository of the same registry to which this user has pushed a blob."""
    if blob.size < _MOUNTED_BYTES:
        return []
    try:
        name = _record_of(target.host, blob).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return []
    return [name] if name and name != target.name else []


def _remember_repository(target: Reference, blob: Blob) -> None:
    if blob.size >= _MOUNTED_BYTES:
        path = _record_of(target.host, blob)
        with suppress(OSError):  # without a cache, the blob is sent again instead of mounted
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(target.name, encoding="utf-8")


def _record_of(host: str, blob: Blob) -> Path:
    name = hashlib.sha256(f"{host} {blob.digest}".encode()).hexdigest()
    return cache_folder() / "pushed" / name
