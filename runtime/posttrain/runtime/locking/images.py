"""Asks a registry what an image's digest stands for: one image, or an index of one for each platform."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.compiler.locking.pins import untagged
from posttrain.runtime.faults import StepFault

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_SECONDS = 30
_FIELD = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class _Repository:
    """Where a registry keeps an image, and what opens it."""

    address: str
    host: str
    name: str


def digest_of(image: str) -> str:
    """The digest that NAME:TAG stands for at this moment; a name alone means the tag `latest`."""
    name = untagged(image)
    where = _repository(name)
    tag = image[len(name) + 1 :] or "latest"
    data = _get(where, f"manifests/{tag}", {"Accept": ", ".join((*_INDEXES, *_MANIFESTS))})
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def platforms_of(image: str) -> dict[str, str]:
    """The digest of each platform of NAME@DIGEST, by OS/CPU."""
    name, _, digest = image.partition("@")
    where = _repository(name)
    manifest = _document(where, f"manifests/{digest}", digest, (*_INDEXES, *_MANIFESTS))
    if manifest.get("mediaType") in _INDEXES or "manifests" in manifest:
        found = {
            _platform(item["platform"]): item["digest"]
            for item in manifest["manifests"]
            if item.get("platform", {}).get("os", "unknown") != "unknown"  # attestations have none
        }
        if not found:
            raise StepFault(f"the index {image} holds no image", "name another image")
        return found
    config = manifest["config"]["digest"]
    return {_platform(_document(where, f"blobs/{config}", config, ("*/*",))): digest}


def _platform(about: Mapping[str, Any]) -> str:
    parts = (about.get("os", "unknown"), about.get("architecture", "unknown"), about.get("variant"))
    return "/".join(part for part in parts if part)


def _repository(name: str) -> _Repository:
    """Docker's rules: a first part with a dot, a colon or `localhost` is a registry; else its own."""
    first, slash, rest = name.partition("/")
    if not slash or not (first == "localhost" or "." in first or ":" in first):
        return _Repository("https://registry-1.docker.io", "docker.io", name if slash else f"library/{name}")
    near = first.partition(":")[0] == "localhost" or first.startswith("127.")
    return _Repository(f"{'http' if near else 'https'}://{first}", first, rest)


def _document(where: _Repository, path: str, digest: str, types: tuple[str, ...]) -> dict[str, Any]:
    """A JSON document of a registry, held to its digest."""
    data = _get(where, path, {"Accept": ", ".join(types)})
    if "sha256:" + hashlib.sha256(data).hexdigest() != digest:
        raise StepFault(
            f"{where.host} gives something else under the digest {digest}", "do not trust this registry"
        )
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise StepFault(f"what {where.host} keeps under {digest} is no image", "check the digest")
    return found


def _get(where: _Repository, path: str, headers: Mapping[str, str]) -> bytes:
    import requests

    address = f"{where.address}/v2/{where.name}/{path}"
    try:
        answer = requests.get(address, headers=headers, timeout=_SECONDS)
        if answer.status_code == 401:
            opened = {**headers, "Authorization": _opening(where, answer.headers.get("WWW-Authenticate", ""))}
            answer = requests.get(address, headers=opened, timeout=_SECONDS)
    except requests.RequestException as error:
        message = f"the registry {where.host} cannot be reached: {type(error).__name__}"
        raise StepFault(message, "check the network and try again", retriable=True) from None
    if answer.status_code != 200:
        advice = "check its name, and its tag or digest; `docker login` if it is private"
        raise StepFault(f"{where.host} does not give {where.name}: status {answer.status_code}", advice)
    return answer.content


def _opening(where: _Repository, challenge: str) -> str:
    """What a registry wants to be told: a token of its own making, or the user's name and password."""
    import requests

    user = _credentials(where.host)
    kind, _, rest = challenge.partition(" ")
    if kind.lower() != "bearer":
        return _basic(user) if user else ""
    fields = dict(_FIELD.findall(rest))
    asked = {name: fields[name] for name in ("service", "scope") if name in fields}
    answer = requests.get(fields.get("realm", ""), params=asked, auth=user, timeout=_SECONDS)
    if answer.status_code != 200:
        message = f"{where.host} does not open {where.name}: status {answer.status_code}"
        raise StepFault(message, "`docker login` to it, if it is private")
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


def _basic(user: tuple[str, str]) -> str:
    from base64 import b64encode

    return "Basic " + b64encode(":".join(user).encode()).decode()
