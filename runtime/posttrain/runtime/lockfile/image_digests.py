"""Resolves image tags and platform digests at a container registry."""

from collections.abc import Mapping
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.registry.oci_reference import InvalidReference, Reference, image_reference
from posttrain.spec.document_json import DocumentError, parse_json_object

_INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_CONFIG_LIMIT = 4 << 20


def resolve_tag(image: str) -> str:
    """The current digest of NAME:TAG; the tag defaults to `latest`."""
    return _fetch(image)[0]


def platform_digests(image: str) -> dict[str, str]:
    """The digest of each platform of NAME@DIGEST, by OS/ARCHITECTURE."""
    digest, manifest = _fetch(image)
    if manifest.get("mediaType") in _INDEX_TYPES or "manifests" in manifest:
        found = {
            _platform_name(item["platform"]): item["digest"]
            for item in manifest["manifests"]
            if item.get("platform", {}).get("os", "unknown") != "unknown"  # attestations have none
        }
        if not found:
            raise StepError(f"the index {image} has no image for any platform", "use another image")
        return found
    return {_platform_name(_fetch_config(image, manifest)): digest}


def _platform_name(about: Mapping[str, Any]) -> str:
    parts = (about.get("os", "unknown"), about.get("architecture", "unknown"), about.get("variant"))
    return "/".join(part for part in parts if part)


def _fetch(image: str) -> tuple[str, dict[str, Any]]:
    """The digest and the content of the manifest of an image. A reference with tag and digest means the
    digest."""
    from posttrain.runtime.registry.registry_client import RegistryClient

    with RegistryClient(_parse(image)) as client:
        found = client.get_manifest(client.reference.version, (*_INDEX_TYPES, *_MANIFEST_TYPES))
    return found.digest, _parse_json(image, found.data)


def _fetch_config(image: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    from posttrain.runtime.registry.oci_manifest import parse_descriptor
    from posttrain.runtime.registry.registry_client import RegistryClient

    config = parse_descriptor(manifest.get("config"))
    if config.size > _CONFIG_LIMIT:
        raise StepError(f"the configuration of {image} has {config.size >> 20} MiB", "check the digest")
    with RegistryClient(_parse(image)) as client:
        return _parse_json(image, client.read_blob(config))


def _parse(image: str) -> Reference:
    try:
        return image_reference(image)
    except InvalidReference as error:
        raise StepError(str(error), "correct the name of the image") from None


def _parse_json(image: str, data: bytes) -> dict[str, Any]:
    try:
        return parse_json_object(data)
    except DocumentError:
        raise StepError(f"{image} is not an image", "check the digest") from None
