"""Checks that an export may replace the folder that it is pushed to."""

from collections.abc import Iterator

from posttrain.runtime.errors import StepError
from posttrain.runtime.plan_params import read_step_params
from posttrain.runtime.preflight.finding import Finding, error
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.runtime.verbs.model_push import check_replaceable, target_folder
from posttrain.spec.step_params.artifact_params import ExportStepParams


def probes(scope: Scope) -> Iterator[Probe]:
    yield lambda: list(_check_folders(scope))


def _check_folders(scope: Scope) -> Iterator[Finding]:
    for step in scope.steps:
        params = read_step_params(step)
        push = params.push if isinstance(params, ExportStepParams) else None
        if push is not None and push.folder is not None:
            try:
                check_replaceable(target_folder(scope.home.root, push.folder))
            except StepError as problem:
                yield error("disk", step, str(problem), problem.advice)
