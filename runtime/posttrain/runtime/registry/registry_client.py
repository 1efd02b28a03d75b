"""Reads and writes the manifests, blobs and referrers of one repository."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from posttrain.runtime.registry.blob_download import download_blob, read_blob
from posttrain.runtime.registry.blob_upload import CHUNK_BYTES, Blob, BlobUpload
from posttrain.runtime.registry.manifest_reader import (
    FetchedManifest,
    fallback_referrers,
    fallback_tag,
    fetch_manifest,
    list_referrers,
)
from posttrain.runtime.registry.oci_manifest import (
    INDEX_TYPE,
    MANIFEST_TYPE,
    MAX_MANIFEST_BYTES,
    Descriptor,
    digest_of,
    index_bytes,
    parse_manifest,
)
from posttrain.runtime.registry.oci_reference import Reference
from posttrain.runtime.registry.registry_errors import ContentError, RegistryError
from posttrain.runtime.registry.registry_hosts import endpoints
from posttrain.runtime.registry.registry_session import RegistrySession
from posttrain.runtime.user_cache import cache_folder

T = TypeVar("T")


class RegistryClient:
    """A client of one repository. Reads try the mirrors of the registry first; writes go to the registry.

    All methods raise RegistryError, with the words of the registry.
    """

    def __init__(self, reference: Reference, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.reference = reference
        self._chunk_bytes = chunk_bytes
        servers = endpoints(reference.host, reference.name)
        self._sessions = [RegistrySession(one, reference.name) for one in servers]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for session in self._sessions:
            session.close()

    def cancel(self) -> None:
        """Make the requests of all threads fail soon."""
        for session in self._sessions:
            session.cancel()

    @property
    def _registry(self) -> RegistrySession:
        return self._sessions[-1]

    def get_manifest(
        self, version: str, accept: Sequence[str] = (MANIFEST_TYPE, INDEX_TYPE)
    ) -> FetchedManifest:
        """The manifest of a tag or of a digest. Raises `ContentError` if it does not match the digest."""
        return self._read(lambda session: fetch_manifest(session, version, accept))

    def find_manifest(self, version: str) -> FetchedManifest | None:
        """The manifest of a tag or of a digest; None if the registry has none."""
        try:
            return self.get_manifest(version)
        except RegistryError as error:
            if error.is_missing:
                return None
            raise

    def put_manifest(self, data: bytes, media_type: str = MANIFEST_TYPE, *, tag: str | None = None) -> str:
        """Store a manifest by its digest, or with a tag. Returns its digest.

        A registry without the API of referrers gets the fallback tag of the manifest's subject updated.
        """
        digest = digest_of(data)
        if len(data) > MAX_MANIFEST_BYTES:
            what = f"the manifest has {len(data)} bytes, and registries accept {MAX_MANIFEST_BYTES}"
            raise ContentError(what, "publish fewer files")
        with self._registry.open(
            "PUT",
            self._registry.url(f"manifests/{tag or digest}"),
            headers={"Content-Type": media_type, "Content-Length": str(len(data))},
            body=lambda: [data],
            accepted=(201,),
        ) as response:
            stored = response.headers.get("docker-content-digest", digest)
            lists_referrers = "oci-subject" in response.headers
        if stored != digest:
            message = f"{self.reference.host} stored the manifest as {stored}, not as {digest}"
            raise ContentError(message, "the registry changes manifests: use another one")
        if media_type == MANIFEST_TYPE and not lists_referrers:
            self._add_to_fallback(data, digest)
        return digest

    def has_blob(self, digest: str) -> bool:
        """Whether the registry has a blob in this repository."""
        url = self._registry.url(f"blobs/{digest}")
        with self._registry.open("HEAD", url, accepted=(200, 404)) as response:
            return response.status_code == 200

    def read_blob(self, blob: Descriptor) -> bytes:
        """A small blob in memory, compared with its digest."""
        return self._read(lambda session: read_blob(session, blob))

    def download_blob(
        self, blob: Descriptor, path: Path, on_size: Callable[[int], None] = lambda size: None
    ) -> None:
        """Write a blob to a file and compare it with its digest. A file with the start of it is continued.

        `on_size` gets the size of the file as it grows.
        """
        self._read(lambda session: download_blob(session, blob, path, on_size))

    def upload_blob(self, blob: Blob, mount_from: Sequence[str] = ()) -> bool:
        """Upload a blob, unless the repository has it or can mount it from another one of the same registry.

        Returns whether its content was sent.
        """
        where = f"{self._registry.url('')}{blob.digest}"
        state = cache_folder() / "uploads" / f"{hashlib.sha256(where.encode()).hexdigest()}.json"
        if self.has_blob(blob.digest) or any(self._mount(blob.digest, name) for name in mount_from):
            with suppress(OSError):
                state.unlink(missing_ok=True)  # of a command that was killed when its upload was complete
            return False
        BlobUpload(self._registry, blob, state, self._chunk_bytes).send()
        return True

    def upload_bytes(self, data: bytes) -> str:
        """Upload a small blob. Returns its digest."""
        digest = digest_of(data)
        self.upload_blob(Blob(digest=digest, size=len(data), data=data))
        return digest

    def referrers(self, digest: str, artifact_type: str | None = None) -> list[Descriptor]:
        """The manifests whose subject is a manifest, such as its signatures."""
        found = self._read(lambda session: list(list_referrers(session, digest, artifact_type)))
        return [one for one in found if artifact_type in (None, one.artifact_type)]

    def _mount(self, digest: str, name: str) -> bool:
        """Whether the registry could take a blob from another of its repositories."""
        session = self._registry
        if name not in session.mounted_repositories:
            session.mounted_repositories.append(name)
        params = {"mount": digest, "from": session.endpoint.repository(name)}
        try:
            with session.open(
                "POST",
                session.url("blobs/uploads/"),
                headers={"Content-Length": "0"},
                params=params,
                accepted=(201, 202),
            ) as response:
                if response.status_code == 201:
                    return True
                # The registry has started an upload instead.
                location = str(session.resolve(response.headers.get("location", "")))
            with session.open("DELETE", location, accepted=(200, 202, 204)):
                return False
        except RegistryError as error:
            if error.retriable:
                raise
            return False  # not allowed to read that repository

    def _add_to_fallback(self, data: bytes, digest: str) -> None:
        """Add a manifest to the index under the fallback tag of its subject, if it has one."""
        manifest = parse_manifest(data)
        if manifest.subject is None:
            return
        entry = Descriptor(
            media_type=MANIFEST_TYPE,
            digest=digest,
            size=len(data),
            annotations=manifest.annotations,
            artifact_type=manifest.artifact_type,
        )
        tag = fallback_tag(manifest.subject.digest)
        existing = fallback_referrers(self._registry, manifest.subject.digest)
        if all(one.digest != digest for one in existing):
            listed = sorted([*existing, entry], key=lambda one: one.digest)
            self.put_manifest(index_bytes(listed), INDEX_TYPE, tag=tag)

    def _read(self, read: Callable[[RegistrySession], T]) -> T:
        """Read from the first server that can answer."""
        for mirror in self._sessions[:-1]:
            try:
                return read(mirror)
            except RegistryError:
                continue
        return read(self._registry)
