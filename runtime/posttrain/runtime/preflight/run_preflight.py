"""Runs all checks of the preflight: one list of findings, before anything is executed."""

import os
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.runtime.machine import Machine, this_machine
from posttrain.runtime.preflight.finding import Finding, merge_findings
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.runtime.process_environment import resolve_secrets
from posttrain.runtime.secret_masking import secret_values
from posttrain.runtime.store.home import Home
from posttrain.spec.place import Place
from posttrain.spec.plan import Plan, Step

if TYPE_CHECKING:
    from posttrain.runtime.runners.cluster.scheduler import Scheduler

# One module for each kind of check.
_CHECKS = (
    "secrets_set",
    "user_functions",
    "episode_interpreters",
    "libraries",
    "script_programs",
    "endpoints",
    "hub_access",
    "disk_space",
    "push_folders",
    "machine_resources",
    "images",
    "stage_rows",
    "place_requests",
)
# These look at the machine of the client. On a cluster, the program on the node checks its stack.
_LOCAL_CHECKS = frozenset(
    ("libraries", "script_programs", "machine_resources", "images", "episode_interpreters")
)
_CONCURRENT_PROBES = 8


def run_preflight(
    plan: Plan,
    home: Home,
    recipe_dir: Path,
    selected: Container[str] | None = None,
    machine: Machine | None = None,
    place: Place | None = None,
    scheduler: "Scheduler | None" = None,
    is_finished: Callable[[Step], bool] | None = None,
) -> tuple[Finding, ...]:
    """What the steps of a run need and would not get, in the order of the recipe.

    Only the selected steps that are not finished are checked, on this machine unless another one or a cluster
    is given. By default, those with a product in the store are finished. Nothing of the user's code is
    executed.
    """

    def has_product(step: Step) -> bool:
        return step.pinned and home.store.find(step.key) is not None

    is_done = is_finished or has_product
    scope = Scope(
        plan=plan,
        steps=tuple(
            step for step in plan.steps if (selected is None or step.id in selected) and not is_done(step)
        ),
        home=home,
        recipe_dir=recipe_dir,
        machine=machine or this_machine(gpus=any(step.resources.gpus for step in plan.steps)),
        place=place,
        scheduler=scheduler,
        variables=dict(os.environ),
    )
    with ThreadPoolExecutor(_CONCURRENT_PROBES, thread_name_prefix="preflight") as pool:
        results = [pool.submit(probe) for probe in _probes(scope)] if scope.steps else []
        found = merge_findings(one for result in results for one in result.result())
    return tuple(_without_secrets(one, scope) for one in found)


def _without_secrets(found: Finding, scope: Scope) -> Finding:
    """A server can repeat a key in its answer."""
    names = {name for step in scope.steps for name in step.secrets}
    cause = found.cause
    for value in secret_values(resolve_secrets(tuple(sorted(names)), scope.variables).values()):
        cause = cause.replace(value, "***")
    return replace(found, cause=cause)


def _probes(scope: Scope) -> Iterator[Probe]:
    for name in _CHECKS:
        if scope.place is not None and name in _LOCAL_CHECKS:
            continue
        probes: Callable[[Scope], Iterator[Probe]] = import_module(
            f"posttrain.runtime.preflight.{name}"
        ).probes
        yield from probes(scope)
