"""Endpoints as a step's parameters have them."""

from typing import Any

from posttrain.spec.declarations import Endpoint


def endpoint_identity(endpoint: Endpoint) -> dict[str, Any]:
    """What an endpoint's completions depend on."""
    found: dict[str, Any] = {"provider": endpoint.provider, "model": endpoint.model, "url": endpoint.url}
    return {**found, "extra": endpoint.extra} if endpoint.extra else found
