"""Reads manifests, and the referrers of a manifest, from one server."""

from collections.abc import Iterator, Sequence

from posttrain.runtime.registry.oci_manifest import (
    INDEX_TYPE,
    MANIFEST_TYPE,
    MAX_MANIFEST_BYTES,
    Descriptor,
    digest_of,
    parse_index,
)
from posttrain.runtime.registry.oci_reference import is_digest
from posttrain.runtime.registry.registry_errors import ContentError, RegistryError
from posttrain.runtime.registry.registry_session import RegistrySession
from posttrain.runtime.registry.response_body import read_start
from posttrain.spec.record import record


@record(kw_only=True)
class FetchedManifest:
    """A manifest as the registry returned it; its content matches the digest."""

    digest: str
    media_type: str
    data: bytes

    @property
    def descriptor(self) -> Descriptor:
        return Descriptor(media_type=self.media_type, digest=self.digest, size=len(self.data))


def fallback_tag(digest: str) -> str:
    """The tag of the index of a manifest's referrers, in a registry that has no API for them."""
    return digest.replace(":", "-")


def fetch_manifest(session: RegistrySession, version: str, accept: Sequence[str]) -> FetchedManifest:
    url = session.url(f"manifests/{version}")
    data = bytearray()
    with session.open("GET", url, headers={"Accept": ", ".join(accept)}) as response:
        for piece in response.iter_raw():
            data += piece
            if len(data) > MAX_MANIFEST_BYTES:
                limit = f"{MAX_MANIFEST_BYTES >> 20} MiB"
                message = f"the manifest {version} at {session.endpoint.host} is larger than {limit}"
                raise ContentError(message, "do not use this artifact")
        media_type = response.headers.get("content-type", MANIFEST_TYPE).partition(";")[0].strip()
    content = bytes(data)
    digest = digest_of(content)
    if is_digest(version) and digest != version:
        message = f"digest mismatch: {session.endpoint.host} returned different content for {version}"
        raise ContentError(message, "do not trust this registry")
    return FetchedManifest(digest=digest, media_type=media_type, data=content)


def list_referrers(session: RegistrySession, digest: str, artifact_type: str | None) -> Iterator[Descriptor]:
    """The referrers by the API, page by page; or those of the fallback tag."""
    url: str | None = session.url(f"referrers/{digest}")
    params = {"artifactType": artifact_type} if artifact_type else {}
    seen: set[str] = set()
    while url is not None and url not in seen:
        seen.add(url)
        with session.open("GET", url, params=params, accepted=(200, 404)) as response:
            is_index = response.headers.get("content-type", "").startswith(INDEX_TYPE)
            if response.status_code == 404 or not is_index:
                yield from fallback_referrers(session, digest)
                return
            data = read_start(response, MAX_MANIFEST_BYTES)
            next_page = response.links.get("next", {}).get("url")
        yield from parse_index(data)
        params = {}
        url = str(session.resolve(next_page, url)) if next_page else None


def fallback_referrers(session: RegistrySession, digest: str) -> list[Descriptor]:
    try:
        return parse_index(fetch_manifest(session, fallback_tag(digest), (INDEX_TYPE,)).data)
    except RegistryError as error:
        if error.is_missing:
            return []
        raise
