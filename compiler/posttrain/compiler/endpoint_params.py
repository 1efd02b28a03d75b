"""Endpoints in the parameters of a step."""

from posttrain.spec.declarations import Endpoint
from posttrain.spec.step_params.generation_params import EndpointIdentity


def endpoint_identity(endpoint: Endpoint) -> EndpointIdentity:
    """The properties of an endpoint that its completions depend on."""
    return EndpointIdentity(
        provider=endpoint.provider,
        model=endpoint.model,
        base_url=endpoint.base_url,
        extra_body=endpoint.extra_body,
    )
