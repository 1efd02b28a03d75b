"""Endpoints as a step's parameters have them."""

from typing import Any

from posttrain.spec.declarations import Endpoint


def endpoint_identity(endpoint: Endpoint) -> dict[str, Any]:
    """What an endpoint's completions depend on."""
    found: dict[str, Any] = {
        "provider": endpoint.provider,
        "model": endpoint.model,
        "base_url": endpoint.base_url,
    }
    return {**found, "extra_body": endpoint.extra_body} if endpoint.extra_body else found
