"""Checks that endpoints respond, accept the key and serve the model. No request generates a completion."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posttrain.runtime.engines.endpoint_client import read_api_key
from posttrain.runtime.engines.providers import base_url, listed_models, model_query
from posttrain.runtime.engines.transport import HttpError, get_json
from posttrain.runtime.errors import StepError
from posttrain.runtime.preflight.finding import Finding, error, warning
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.runtime.preflight.step_parts import EndpointUse, endpoint_uses
from posttrain.spec.suggestions import hint

_SECONDS = 10.0  # time limit of a request
_MAX_MESSAGE = 160
# Statuses of a server that does not offer the list of models: it responds, and says nothing more.
_NO_LIST = (405, 501)


def probes(scope: Scope) -> Iterator[Probe]:
    uses: dict[str, list[EndpointUse]] = {}
    for step in scope.steps:
        for use in endpoint_uses(step):
            # Legs of a matrix can have endpoints of the same name with other settings.
            settings = repr(sorted((name, repr(value)) for name, value in use.endpoint.items()))
            uses.setdefault(f"{use.name} {settings}", []).append(use)
    for same in uses.values():
        yield lambda same=same: _check_endpoint(same, scope.variables)


def _check_endpoint(uses: Sequence[EndpointUse], variables: Mapping[str, str]) -> list[Finding]:
    """The findings about one endpoint, for each step that uses it."""
    endpoint = uses[0].endpoint
    try:
        key, has_key = read_api_key(endpoint, variables), True
    except StepError:  # reported with the secrets; whether the server answers shows without a key
        key, has_key = None, False
    if not has_key and endpoint.get("base_url") is None:
        return []  # a public API: its address is no part of the recipe
    found = _request_model(uses[0], endpoint, key, only_reach=not has_key)
    if found is None:
        return []
    severity, cause, advice = found
    report = error if severity == "error" else warning
    return [report("endpoint", use.step, cause, advice, declaration=use.declaration) for use in uses]


def _request_model(
    use: EndpointUse, endpoint: Mapping[str, Any], key: str | None, *, only_reach: bool
) -> tuple[str, str, str] | None:
    """Severity, cause and advice of the problem of an endpoint; None if it is fine.

    With `only_reach` its answer does not matter."""
    try:
        url, headers = model_query(endpoint, key)
        answer = get_json(url, headers, _SECONDS)
    except StepError as problem:  # of the URL or of the proxy
        return "error", f"`{use.name}`: {problem}", problem.advice
    except HttpError as problem:
        return None if only_reach else _explain_status(use, endpoint, problem)
    except TimeoutError:
        cause = f"`{use.name}` at {base_url(endpoint)} did not answer within {_SECONDS:g} s"
        return "warning", cause, "check that the server is not overloaded or still loading its model"
    except OSError as problem:
        cause = f"`{use.name}` at {base_url(endpoint)} cannot be reached: {problem}"
        return "error", cause, "start the server, or correct the `base_url` of the endpoint"
    except ValueError:
        if only_reach:
            return None
        cause = f"`{use.name}` at {base_url(endpoint)} does not answer with JSON"
        return "warning", cause, "check that `base_url` is the address of an API, such as https://HOST/v1"
    models = listed_models(answer)
    if only_reach or models is None or endpoint["model"] in models:
        return None
    cause = f"`{use.name}` at {base_url(endpoint)} does not list the model `{endpoint['model']}`"
    # vLLM lists every model that it serves; gateways can serve models that they do not list.
    return (
        "error" if endpoint["provider"] == "vllm" else "warning",
        cause,
        hint(endpoint["model"], models, what="models")[0],
    )


def _explain_status(
    use: EndpointUse, endpoint: Mapping[str, Any], problem: HttpError
) -> tuple[str, str, str] | None:
    where, key = f"`{use.name}` at {base_url(endpoint)}", endpoint.get("api_key")
    answer = f"{problem.status} {problem.message}".strip()[:_MAX_MESSAGE]
    if problem.status in _NO_LIST:
        return None
    if problem.status == 401:
        how = f"rejects the key in {key}" if key else "requires a key"
        advice = f"set {key} to a valid key" if key else "add `api_key: {env: NAME}` to the endpoint"
        return "error", f"{where} {how}: {answer}", advice
    if problem.status == 404:
        if endpoint.get("base_url") is None:
            cause = f"{where} has no model `{endpoint['model']}`: {answer}"
            return "error", cause, "correct the `model` of the endpoint"
        return "warning", f"{where} has no list of models: {answer}", "check the path of `base_url`"
    if problem.status == 429 or problem.status >= 500:
        return "warning", f"{where} is overloaded or fails: {answer}", "steps retry; check its status page"
    return "warning", f"{where} answers {answer}", "check the `base_url` and the key of the endpoint"
