"""Resolves image tags and platform digests at a container registry."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.spec.image_names import strip_image_tag

_INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_TIMEOUT_SECONDS = 30
_CHALLENGE_FIELD = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class _Repository:
    """The address of an image repository."""

    address: str
    host: str
    name: str


def resolve_tag(image: str) -> str:
    """The current digest of NAME:TAG; the tag defaults to `latest`."""
    name = strip_image_tag(image)
    repository = _parse_repository(name)
    tag = image[len(name) + 1 :] or "latest"
    data = _fetch(repository, f"manifests/{tag}", {"Accept": ", ".join((*_INDEX_TYPES, *_MANIFEST_TYPES))})
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def platform_digests(image: str) -> dict[str, str]:
    """The digest of each platform of NAME@DIGEST, by OS/ARCHITECTURE."""
    name, _, digest = image.partition("@")
    repository = _parse_repository(name)
    manifest = _fetch_json(repository, f"manifests/{digest}", digest, (*_INDEX_TYPES, *_MANIFEST_TYPES))
    if manifest.get("mediaType") in _INDEX_TYPES or "manifests" in manifest:
        found = {
            _platform_name(item["platform"]): item["digest"]
            for item in manifest["manifests"]
            if item.get("platform", {}).get("os", "unknown") != "unknown"  # attestations have none
        }
        if not found:
            raise StepError(f"the index {image} has no image for any platform", "use another image")
        return found
    config = manifest["config"]["digest"]
    return {_platform_name(_fetch_json(repository, f"blobs/{config}", config, ("*/*",))): digest}


def _platform_name(about: Mapping[str, Any]) -> str:
    parts = (about.get("os", "unknown"), about.get("architecture", "unknown"), about.get("variant"))
    return "/".join(part for part in parts if part)


def _parse_repository(name: str) -> _Repository:
    """Parse by Docker's rules: a first part with a dot, a colon or `localhost` is a registry; otherwise
    the image is on Docker Hub."""
    first, slash, rest = name.partition("/")
    if not slash or not (first == "localhost" or "." in first or ":" in first):
        return _Repository("https://registry-1.docker.io", "docker.io", name if slash else f"library/{name}")
    is_local = first.partition(":")[0] == "localhost" or first.startswith("127.")
    return _Repository(f"{'http' if is_local else 'https'}://{first}", first, rest)


def _fetch_json(repository: _Repository, path: str, digest: str, types: tuple[str, ...]) -> dict[str, Any]:
    """A JSON document of a registry, verified against its digest."""
    data = _fetch(repository, path, {"Accept": ", ".join(types)})
    if "sha256:" + hashlib.sha256(data).hexdigest() != digest:
        raise StepError(
            f"digest mismatch: {repository.host} returned different content for {digest}",
            "do not trust this registry",
        )
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise StepError(f"{digest} at {repository.host} is not an image", "check the digest")
    return found


def _fetch(repository: _Repository, path: str, headers: Mapping[str, str]) -> bytes:
    import requests

    address = f"{repository.address}/v2/{repository.name}/{path}"
    try:
        response = requests.get(address, headers=headers, timeout=_TIMEOUT_SECONDS)
        if response.status_code == 401:
            opened = {
                **headers,
                "Authorization": _authorization(repository, response.headers.get("WWW-Authenticate", "")),
            }
            response = requests.get(address, headers=opened, timeout=_TIMEOUT_SECONDS)
    except (requests.RequestException, UnicodeError, ValueError) as error:
        message = f"cannot reach the registry {repository.host}: {type(error).__name__}"
        raise StepError(message, "check the network and try again", retriable=True) from None
    if response.status_code != 200:
        advice = "check the name, and the tag or the digest; run `docker login` for a private image"
        raise StepError(f"{repository.host} refused {repository.name}: status {response.status_code}", advice)
    return response.content


def _authorization(repository: _Repository, challenge: str) -> str:
    """The Authorization header: a bearer token of the registry, or basic authentication."""
    import requests

    user = _credentials(repository.host)
    kind, _, rest = challenge.partition(" ")
    if kind.lower() != "bearer":
        return _basic_auth(user) if user else ""
    fields = dict(_CHALLENGE_FIELD.findall(rest))
    query = {name: fields[name] for name in ("service", "scope") if name in fields}
    response = requests.get(fields.get("realm", ""), params=query, auth=user, timeout=_TIMEOUT_SECONDS)
    if response.status_code != 200:
        message = f"{repository.host} refused access to {repository.name}: status {response.status_code}"
        raise StepError(message, "run `docker login` for a private image")
    token = _token(response.content)
    if not token:
        message = f"{repository.host} answered without a token for {repository.name}"
        raise StepError(message, "try again, or name an image of another registry", retriable=True)
    return f"Bearer {token}"


def _token(content: bytes) -> str:
    """The token in the answer of an authorization server; empty if there is none."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    token = (found.get("token") or found.get("access_token")) if isinstance(found, dict) else None
    return token if isinstance(token, str) and token.isprintable() and token.isascii() else ""


def _credentials(host: str) -> tuple[str, str] | None:
    """The credentials that `docker login` stored for this registry."""
    from docker.auth import load_config
    from docker.errors import DockerException

    try:
        config = load_config().resolve_authconfig(host)
    except DockerException:  # an unreadable credential store
        return None
    name, secret = (config or {}).get("username"), (config or {}).get("password")
    return (name, secret) if name and secret else None


def _basic_auth(user: tuple[str, str]) -> str:
    from base64 import b64encode

    return "Basic " + b64encode(":".join(user).encode()).decode()
