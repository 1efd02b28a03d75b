"""Checks that the secrets that the recipe names are set."""

from collections.abc import Iterator, Sequence

from posttrain.runtime.engines.endpoint_client import read_api_key
from posttrain.runtime.errors import StepError
from posttrain.runtime.plan_params import read_step_params
from posttrain.runtime.preflight.finding import Finding, error
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.runtime.preflight.step_parts import endpoint_uses
from posttrain.runtime.process_environment import resolve_secrets
from posttrain.spec.plan import Step
from posttrain.spec.step_params.artifact_params import ExportStepParams


def probes(scope: Scope) -> Iterator[Probe]:
    yield lambda: [found for step in scope.steps for found in _missing_secrets(step, scope)]


def _missing_secrets(step: Step, scope: Scope) -> Iterator[Finding]:
    for use in endpoint_uses(step):
        try:
            read_api_key(use.endpoint, scope.variables)
        except StepError as problem:
            yield error(
                "secret", step, f"`{use.name}`: {problem}", problem.advice, declaration=use.declaration
            )
    params = read_step_params(step)
    push = params.push if isinstance(params, ExportStepParams) else None
    if isinstance(params, ExportStepParams) and push is not None and push.hub and params.access:
        yield from _missing_token(step, params.access.token, push.hub, scope)


def _missing_token(step: Step, name: str, repository: str, scope: Scope) -> Sequence[Finding]:
    if resolve_secrets((name,), scope.variables).get(name, "").strip():
        return ()
    cause = f"the environment variable {name}, the token for a push to `{repository}`, is not set"
    return [error("secret", step, cause, f"set {name}, or remove `push`")]
