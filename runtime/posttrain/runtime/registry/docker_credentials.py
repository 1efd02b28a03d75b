"""The credentials that `docker login` stored, and the tokens of authorization servers."""

import json
import re
import warnings
from pathlib import Path
from typing import Any, cast

from posttrain.runtime.registry.oci_reference import is_docker_hub
from posttrain.spec.record import record

_CHALLENGE_FIELD = re.compile(r'(\w+)="([^"]*)"')
MAX_TOKEN_BYTES = 1 << 20


@record(kw_only=True)
class Credentials:
    """The account of a registry. An identity token replaces the password."""

    user: str = ""
    password: str = ""
    identity_token: str = ""
    # Why the stored credentials could not be read.
    problem: str = ""

    @property
    def basic(self) -> tuple[str, str] | None:
        return (self.user, self.password) if self.user and self.password else None


@record(kw_only=True)
class Challenge:
    """The WWW-Authenticate header of a response."""

    scheme: str
    realm: str = ""
    service: str = ""
    scope: str = ""


def parse_challenge(header: str) -> Challenge:
    kind, _, rest = header.partition(" ")
    fields = dict(_CHALLENGE_FIELD.findall(rest))
    return Challenge(
        scheme=kind.lower(),
        realm=fields.get("realm", ""),
        service=fields.get("service", ""),
        scope=fields.get("scope", ""),
    )


def stored_credentials(host: str) -> Credentials:
    """The credentials in Docker's config.json, or of its credential helper; empty without any."""
    from docker.auth import load_config
    from docker.errors import DockerException

    try:
        _check_config()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a missing helper, which is also an error
            found = load_config().resolve_authconfig(None if is_docker_hub(host) else host)
    except (DockerException, OSError, ValueError) as error:
        return Credentials(problem=f"the stored credentials cannot be read ({error})")
    except (AttributeError, KeyError, TypeError):
        what = "Docker's config.json, or the output of its credential helper, has another form than Docker's"
        return Credentials(problem=f"the stored credentials cannot be read ({what})")
    fields = cast(dict[str, Any], found or {})
    token = fields.get("identitytoken") or fields.get("IdentityToken") or ""
    user, password = (fields.get(name) or fields.get(name.title()) or "" for name in ("username", "password"))
    return Credentials(user=str(user), password=str(password), identity_token=str(token))


def _check_config() -> None:
    """Raise `ValueError` for a damaged config.json, which the library takes for an empty one."""
    from docker.utils.config import find_config_file

    found_file = find_config_file()
    path = None if found_file is None else Path(str(found_file))
    if path is None or path.name != "config.json":
        return
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is not a JSON object")


def basic_header(user: tuple[str, str]) -> str:
    from base64 import b64encode

    return "Basic " + b64encode(":".join(user).encode()).decode()


def parse_token(content: bytes) -> str:
    """The token in the answer of an authorization server; empty if there is none."""
    try:
        found = json.loads(content[:MAX_TOKEN_BYTES])
    except (ValueError, RecursionError):
        return ""
    token = (found.get("token") or found.get("access_token")) if isinstance(found, dict) else None
    return token if isinstance(token, str) and token.isprintable() and token.isascii() else ""
