"""Checks that repositories and revisions on the hub exist and are readable, and that pushes are permitted."""

import os
from collections.abc import Iterator, Mapping, Sequence

from posttrain.runtime.errors import StepError
from posttrain.runtime.lockfile.hub_revisions import HubUnavailable, find_repository, first_line
from posttrain.runtime.plan_params import read_step_params
from posttrain.runtime.preflight.finding import Finding, error, warning
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.runtime.process_environment import resolve_secrets
from posttrain.spec.origin_names import is_folder
from posttrain.spec.plan import Step
from posttrain.spec.process_variables import HUB_CREDENTIAL
from posttrain.spec.record import record
from posttrain.spec.step_params.artifact_params import ExportStepParams, ModelStepParams
from posttrain.spec.step_params.data_params import DataStepParams
from posttrain.spec.step_params.eval_params import BenchmarkStepParams

_SECONDS = 10.0  # time limit of a request
_TRUE = ("1", "on", "yes", "true")


@record
class _Repository:
    kind: str
    name: str
    revision: str | None
    # A file that shows that the cache has the repository, if the step reads it through the cache.
    cached_file: str = ""


def probes(scope: Scope) -> Iterator[Probe]:
    readers: dict[_Repository, list[Step]] = {}
    for step in scope.steps:
        for repository in _repositories(step):
            readers.setdefault(repository, []).append(step)
        params = read_step_params(step)
        if isinstance(params, ExportStepParams) and params.push and params.push.hub and params.access:
            push, name = params.push.hub, params.access.token
            yield lambda step=step, push=push, name=name: _check_push(step, push, name, scope.variables)
    for repository, steps in readers.items():
        yield lambda repository=repository, steps=steps: _check_readable(repository, steps, scope.variables)


def _repositories(step: Step) -> Iterator[_Repository]:
    """The repositories that a step reads."""
    params = read_step_params(step)
    if isinstance(params, ModelStepParams):
        if params.from_ is not None and not is_folder(params.from_):
            yield _Repository("model", params.from_, params.revision)
        tokenizer = params.tokenizer
        if tokenizer is not None and tokenizer.from_ is not None and not is_folder(tokenizer.from_):
            yield _Repository("model", tokenizer.from_, tokenizer.revision, "tokenizer_config.json")
    elif isinstance(params, DataStepParams) and params.source is not None and params.source.name == "hub":
        values = params.source.params
        yield _Repository("dataset", str(values["name"]), str(values.get("revision", "main")))
    elif isinstance(params, BenchmarkStepParams):
        for name, commit in params.revisions.items():
            yield _Repository("dataset", name, commit)


def _check_readable(
    repository: _Repository, steps: Sequence[Step], variables: Mapping[str, str]
) -> list[Finding]:
    what = f"the {repository.kind} `{repository.name}`"
    if offline := _offline_variable(variables):
        if _is_cached(repository):
            return []
        cause = f"{what} must be downloaded, and {offline} forbids it"
        return [error("hub", step, cause, f"unset {offline}, or read a local folder") for step in steps]
    try:
        find_repository(
            repository.kind,
            repository.name,
            repository.revision,
            token=_token(variables),
            seconds=_SECONDS,
        )
    except HubUnavailable as problem:
        report = warning if problem.is_reachable or _is_cached(repository) else error
        return [report("hub", step, str(problem), problem.advice) for step in steps]
    except StepError as problem:
        return [error("hub", step, str(problem), problem.advice) for step in steps]
    except ImportError:
        return []  # a library that `libraries.py` reports
    return []


def _offline_variable(variables: Mapping[str, str]) -> str:
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return next((name for name in names if variables.get(name, "").lower() in _TRUE), "")


def _is_cached(repository: _Repository) -> bool:
    """Whether the step can read the repository from the hub's cache. Weights and rows are downloaded."""
    if not repository.cached_file:
        return False
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(
        repository.name, repository.cached_file, revision=repository.revision or "main"
    )
    return isinstance(found, str)


def _token(variables: Mapping[str, str]) -> str | bool:
    """The token that the steps will have: without one, huggingface_hub must not use a stored one."""
    if variables.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").lower() in _TRUE:
        return False
    return resolve_secrets((HUB_CREDENTIAL,), variables).get(HUB_CREDENTIAL) or False


def _check_push(step: Step, repository: str, name: str, variables: Mapping[str, str]) -> list[Finding]:
    """Check that the hub accepts the token, and that it permits writing to an existing repository."""
    token = resolve_secrets((name,), variables).get(name, "").strip()
    if not token:
        return []  # reported with the secrets
    if offline := _offline_variable(variables):
        cause = f"the push to `{repository}` needs the hub, and {offline} forbids it"
        return [error("hub", step, cause, f"unset {offline}, or push to a folder")]
    from httpx import HTTPError
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=token)
    try:
        api.whoami()
        api.auth_check(repository, write=True)
    except RepositoryNotFoundError:
        return []  # the push creates it
    except HfHubHTTPError as problem:
        status = problem.response.status_code
        if status not in (401, 403):
            return []  # a mirror without this API
        cause = f"the token in {name} does not permit a push to `{repository}`: {first_line(problem)}"
        return [error("hub", step, cause, f"set {name} to a token with write access")]
    except (HTTPError, OSError, ValueError) as problem:
        cause = f"the hub cannot be reached for the push to `{repository}`: {first_line(problem)}"
        return [warning("hub", step, cause, "check the network")]
    return []
