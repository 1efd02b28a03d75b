"""References to artifacts: `oci://HOST[:PORT]/NAME[:TAG][@DIGEST]`."""

import re

from posttrain.spec.record import record
from posttrain.spec.url_passwords import mask_url_passwords

SCHEME = "oci://"
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?")
# The grammar of the OCI distribution specification.
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_NAME_LENGTH = 255
_FORM = "write oci://HOST/NAME:TAG or oci://HOST/NAME@sha256:DIGEST"
_DOCKER_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")


class InvalidReference(ValueError):
    """A reference that names no artifact, with the reason."""


@record(kw_only=True)
class Reference:
    """The address of an artifact in a registry."""

    host: str
    name: str
    tag: str | None = None
    digest: str | None = None

    @property
    def repository(self) -> str:
        """Without tag and digest."""
        return f"{SCHEME}{self.host}/{self.name}"

    @property
    def version(self) -> str:
        """What the manifest is requested by: the digest, or else the tag."""
        return self.digest or self.tag or "latest"

    def pinned(self, digest: str) -> "Reference":
        """The same artifact by its digest."""
        return Reference(host=self.host, name=self.name, tag=self.tag, digest=digest)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")


def is_reference(text: str) -> bool:
    return text.startswith(SCHEME)


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def parse_reference(text: str) -> Reference:
    """Parse a reference. Raises `InvalidReference` with the part that is wrong."""
    address, _, digest = text.removeprefix(SCHEME).partition("@")
    host, slash, path = address.partition("/")
    name, colon, tag = path.partition(":")
    problem = ""
    if not is_reference(text):
        problem = f"it does not start with {SCHEME}"
    elif not slash and "/" in digest:  # oci://USER:PASSWORD@HOST/NAME
        problem = "it contains credentials: those of `docker login` are used"
    elif not slash or not _HOST.fullmatch(host) or not _is_port(host):
        problem = f"`{host}` is not the address of a registry"
    elif not _NAME.fullmatch(name) or len(name) > _MAX_NAME_LENGTH:
        problem = f"`{name}` is not the name of a repository: lowercase letters, digits, `.`, `_`, `-`, `/`"
    elif colon and not _TAG.fullmatch(tag):
        problem = f"`{tag}` is not a tag: at most 128 letters, digits, `.`, `_`, `-`"
    elif "@" in text and not is_digest(digest):
        problem = f"`{digest}` is not a digest: sha256: and 64 hexadecimal digits"
    if problem:
        message = f"`{text[:300]}` is not a reference: {problem}; {_FORM}"
        raise InvalidReference(mask_url_passwords(message))
    return Reference(host=host, name=name, tag=tag or None, digest=digest or None)


def _is_port(host: str) -> bool:
    port = host.rpartition(":")[2] if not host.endswith("]") else ""
    return not port.isdigit() or 0 < int(port) < 65_536


def image_reference(image: str) -> Reference:
    """The reference of a container image, by Docker's rules: a first part with a dot, a colon or `localhost`
    is a registry; otherwise the image is on Docker Hub."""
    first, slash, _ = image.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return parse_reference(SCHEME + image)
    return parse_reference(f"{SCHEME}docker.io/{image if slash else f'library/{image}'}")


def is_docker_hub(host: str) -> bool:
    return host in _DOCKER_HUB


def is_loopback(host: str) -> bool:
    """Docker uses plain HTTP for these."""
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return name in ("localhost", "[::1]") or name.startswith("127.")
