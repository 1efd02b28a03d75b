"""Endpoints in the parameters of a step."""

from typing import Any

from posttrain.spec.declarations import Endpoint


def endpoint_identity(endpoint: Endpoint) -> dict[str, Any]:
    """The properties of an endpoint that its completions depend on."""
    identity: dict[str, Any] = {
        "provider": endpoint.provider,
        "model": endpoint.model,
        "base_url": endpoint.base_url,
    }
    return {**identity, "extra_body": endpoint.extra_body} if endpoint.extra_body else identity
