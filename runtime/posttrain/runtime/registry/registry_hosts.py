"""Where the requests for a registry go: its mirrors, plain HTTP, and private certificate authorities.

Mirrors come from registries.conf, the file of Podman and Skopeo; certificates from SSL_CERT_FILE, from
SSL_CERT_DIR and from the folders of Docker and Podman.
"""

import os
import ssl
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from posttrain.runtime.registry.oci_reference import is_docker_hub, is_loopback
from posttrain.runtime.registry.registry_errors import RegistryError
from posttrain.runtime.user_cache import expand_home
from posttrain.spec.record import record

_CERTIFICATE_FOLDERS = ("/etc/docker/certs.d", "/etc/containers/certs.d", "~/.config/containers/certs.d")


@record(kw_only=True)
class Endpoint:
    """A server that has the repositories of a registry."""

    address: str  # of the API, such as https://HOST
    host: str  # as in the file of credentials
    # A mirror with a path has it instead of `strip`, the start of a repository's name.
    prefix: str = ""
    strip: str = ""

    def repository(self, name: str) -> str:
        rest = name.removeprefix(self.strip).lstrip("/")
        return "/".join(filter(None, (self.prefix, rest)))


def endpoints(host: str, name: str) -> list[Endpoint]:
    """The mirrors of a repository, in the order of registries.conf, and the registry itself at the end."""
    entry = _matching_entry(f"{host}/{name}")
    prefix = str(entry.get("prefix") or entry.get("location") or "")
    strip = prefix.partition("/")[2]
    mirrors = [
        _endpoint(str(mirror["location"]), bool(mirror.get("insecure")), strip)
        for mirror in _tables(entry.get("mirror"))
        if mirror.get("location")
    ]
    location = str(entry.get("location") or "")
    insecure = bool(entry.get("insecure"))
    moved = location not in ("", prefix)
    own = _endpoint(location, insecure, strip) if moved else _endpoint(host, insecure, "")
    return [*mirrors, own]


def _endpoint(location: str, insecure: bool, strip: str) -> Endpoint:
    host, _, path = location.rstrip("/").partition("/")
    server = "registry-1.docker.io" if is_docker_hub(host) else host
    scheme = "http" if insecure or is_loopback(host) else "https"
    return Endpoint(address=f"{scheme}://{server}", host=host, prefix=path, strip=strip)


def _matching_entry(repository: str) -> Mapping[str, Any]:
    """The entry of registries.conf with the longest prefix of a repository."""
    found: Mapping[str, Any] = {}
    longest = -1
    for entry in _registries():
        prefix = str(entry.get("prefix") or entry.get("location") or "")
        if prefix and f"{repository}/".startswith(f"{prefix}/") and len(prefix) > longest:
            found, longest = entry, len(prefix)
    return found


def _registries() -> Sequence[Mapping[str, Any]]:
    path = _registries_file()
    if path is None:
        return ()
    try:
        return _tables(tomllib.loads(path.read_text(encoding="utf-8")).get("registry"))
    except (OSError, ValueError) as error:
        advice = "correct the file, or set CONTAINERS_REGISTRIES_CONF to another one"
        raise RegistryError(f"{path} cannot be read: {error}", advice) from None


def _registries_file() -> Path | None:
    """The file that Podman and Skopeo read."""
    if named := os.environ.get("CONTAINERS_REGISTRIES_CONF"):
        return Path(named)
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    for path in (f"{config}/containers/registries.conf", "/etc/containers/registries.conf"):
        if (found := expand_home(path)) is not None and found.is_file():
            return found
    return None


def _tables(value: Any) -> list[Mapping[str, Any]]:
    listed = cast(list[Any], value) if isinstance(value, list) else []
    return [cast(Mapping[str, Any], one) for one in listed if isinstance(one, dict)]


def tls_context(host: str) -> ssl.SSLContext:
    """The certificates of the system and of SSL_CERT_FILE, and those that are stored for a registry."""
    context = ssl.create_default_context()
    try:
        for path in _stored_certificates(host, ".crt"):
            context.load_verify_locations(path)
        for path in _stored_certificates(host, ".cert"):
            context.load_cert_chain(path, path.with_suffix(".key"))
    except (OSError, ssl.SSLError) as error:
        message = f"a certificate for {host} in certs.d cannot be read: {error}"
        raise RegistryError(message, "correct or remove the file") from None
    return context


def _stored_certificates(host: str, ending: str) -> Iterator[Path]:
    for folder in _CERTIFICATE_FOLDERS:
        root = expand_home(folder)
        if root is not None and (root / host).is_dir():
            yield from sorted(path for path in (root / host).iterdir() if path.suffix == ending)
