"""Asks the authorization server of a registry for a token."""

from collections.abc import Sequence

import httpx

from posttrain.runtime.registry.docker_credentials import (
    MAX_TOKEN_BYTES,
    Credentials,
    basic_header,
    parse_token,
)
from posttrain.runtime.registry.oci_reference import is_loopback
from posttrain.runtime.registry.registry_errors import RegistryError, refusal
from posttrain.runtime.registry.registry_hosts import Endpoint
from posttrain.runtime.registry.response_body import read_start

_IDENTITY = {"Accept-Encoding": "identity"}


def fetch_token(
    endpoint: Endpoint,
    client: httpx.Client,
    realm: httpx.URL,
    service: str,
    scopes: Sequence[str],
    user: Credentials,
) -> str:
    """The Authorization header with a token for the scopes."""
    plain = realm.scheme == "http" and endpoint.address.startswith("https:")
    if plain and (user.basic or user.identity_token) and not is_loopback(realm.host):
        message = f"{endpoint.host} asks for the password over plain HTTP, at {realm.host}"
        raise RegistryError(message, "do not trust this registry")
    try:
        answer = _request(client, realm, service, scopes, user)
    except (UnicodeError, ValueError) as error:  # a name that DNS cannot have, no such port
        raise httpx.UnsupportedProtocol(f"{realm.host} is not the name of a server: {error}") from None
    status, content = answer
    if status != 200:
        what = f"access to {', '.join(scopes)}"
        raise refusal(endpoint.host, what, status, content, user.problem)
    token = parse_token(content)
    if not token:
        message = f"{endpoint.host} answered without a token"
        raise RegistryError(message, "try again, or use another registry", retriable=True)
    return f"Bearer {token}"


def _request(
    client: httpx.Client, realm: httpx.URL, service: str, scopes: Sequence[str], user: Credentials
) -> tuple[int, bytes]:
    """The status and the body of the answer."""
    named = {"service": service} if service else {}
    if user.identity_token:  # of an interactive `docker login`
        form = {"grant_type": "refresh_token", "refresh_token": user.identity_token, "client_id": "posttrain"}
        data = {**form, **named, "scope": " ".join(scopes)}
        request = client.build_request("POST", realm, headers=_IDENTITY, data=data)
    else:
        headers = {"Authorization": basic_header(user.basic)} if user.basic else {}
        url = realm.copy_merge_params({**named, "scope": list(scopes)})
        request = client.build_request("GET", url, headers={**_IDENTITY, **headers})
    response = client.send(request, stream=True)
    try:
        return response.status_code, read_start(response, MAX_TOKEN_BYTES)
    finally:
        response.close()
