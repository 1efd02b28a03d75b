"""Asks a registry what an image's digest stands for: one image, or an index of one for each platform."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.compiler.lockfile.pins import strip_image_tag
from posttrain.runtime.errors import StepError

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
    """Where a registry keeps an image, and what opens it."""

    address: str
    host: str
    name: str


def resolve_tag(image: str) -> str:
    """The digest that NAME:TAG stands for at this moment; a name alone means the tag `latest`."""
    name = strip_image_tag(image)
    where = _parse_repository(name)
    tag = image[len(name) + 1 :] or "latest"
    data = _fetch(where, f"manifests/{tag}", {"Accept": ", ".join((*_INDEX_TYPES, *_MANIFEST_TYPES))})
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def platform_digests(image: str) -> dict[str, str]:
    """The digest of each platform of NAME@DIGEST, by OS/CPU."""
    name, _, digest = image.partition("@")
    where = _parse_repository(name)
    manifest = _fetch_json(where, f"manifests/{digest}", digest, (*_INDEX_TYPES, *_MANIFEST_TYPES))
    if manifest.get("mediaType") in _INDEX_TYPES or "manifests" in manifest:
        found = {
            _platform_name(item["platform"]): item["digest"]
            for item in manifest["manifests"]
            if item.get("platform", {}).get("os", "unknown") != "unknown"  # attestations have none
        }
        if not found:
            raise StepError(f"the index {image} holds no image", "name another image")
        return found
    config = manifest["config"]["digest"]
    return {_platform_name(_fetch_json(where, f"blobs/{config}", config, ("*/*",))): digest}


def _platform_name(about: Mapping[str, Any]) -> str:
    parts = (about.get("os", "unknown"), about.get("architecture", "unknown"), about.get("variant"))
    return "/".join(part for part in parts if part)


def _parse_repository(name: str) -> _Repository:
    """Docker's rules: a first part with a dot, a colon or `localhost` is a registry; else its own."""
    first, slash, rest = name.partition("/")
    if not slash or not (first == "localhost" or "." in first or ":" in first):
        return _Repository("https://registry-1.docker.io", "docker.io", name if slash else f"library/{name}")
    near = first.partition(":")[0] == "localhost" or first.startswith("127.")
    return _Repository(f"{'http' if near else 'https'}://{first}", first, rest)


def _fetch_json(where: _Repository, path: str, digest: str, types: tuple[str, ...]) -> dict[str, Any]:
    """A JSON document of a registry, held to its digest."""
    data = _fetch(where, path, {"Accept": ", ".join(types)})
    if "sha256:" + hashlib.sha256(data).hexdigest() != digest:
        raise StepError(
            f"{where.host} gives something else under the digest {digest}", "do not trust this registry"
        )
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise StepError(f"what {where.host} keeps under {digest} is no image", "check the digest")
    return found


def _fetch(where: _Repository, path: str, headers: Mapping[str, str]) -> bytes:
    import requests

    address = f"{where.address}/v2/{where.name}/{path}"
    try:
        answer = requests.get(address, headers=headers, timeout=_TIMEOUT_SECONDS)
        if answer.status_code == 401:
            opened = {
                **headers,
                "Authorization": _authorization(where, answer.headers.get("WWW-Authenticate", "")),
            }
            answer = requests.get(address, headers=opened, timeout=_TIMEOUT_SECONDS)
    except requests.RequestException as error:
        message = f"the registry {where.host} cannot be reached: {type(error).__name__}"
        raise StepError(message, "check the network and try again", retriable=True) from None
    if answer.status_code != 200:
        advice = "check its name, and its tag or digest; `docker login` if it is private"
        raise StepError(f"{where.host} does not give {where.name}: status {answer.status_code}", advice)
    return answer.content


def _authorization(where: _Repository, challenge: str) -> str:
    """What a registry wants to be told: a token of its own making, or the user's name and password."""
    import requests

    user = _credentials(where.host)
    kind, _, rest = challenge.partition(" ")
    if kind.lower() != "bearer":
        return _basic_auth(user) if user else ""
    fields = dict(_CHALLENGE_FIELD.findall(rest))
    asked = {name: fields[name] for name in ("service", "scope") if name in fields}
    answer = requests.get(fields.get("realm", ""), params=asked, auth=user, timeout=_TIMEOUT_SECONDS)
    if answer.status_code != 200:
        message = f"{where.host} does not open {where.name}: status {answer.status_code}"
        raise StepError(message, "`docker login` to it, if it is private")
    told = answer.json()
    return f"Bearer {told.get('token') or told.get('access_token', '')}"


def _credentials(host: str) -> tuple[str, str] | None:
    """What `docker login` has kept for this registry."""
    from docker.auth import load_config
    from docker.errors import DockerException

    try:
        found = load_config().resolve_authconfig(host)
    except DockerException:  # a store of secrets that cannot be asked
        return None
    name, secret = (found or {}).get("username"), (found or {}).get("password")
    return (name, secret) if name and secret else None


def _basic_auth(user: tuple[str, str]) -> str:
    from base64 import b64encode

    return "Basic " + b64encode(":".join(user).encode()).decode()
