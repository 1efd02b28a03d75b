"""Prints what the steps of a plan request of a cluster."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from posttrain.cli.invalid_usage import InvalidUsage
from posttrain.cli.text_tables import PENDING_STATES, print_table
from posttrain.runtime.runners.cluster.job_request import describe_request, step_request, unmet_limit
from posttrain.runtime.runners.cluster.job_specs import JobSpecs
from posttrain.runtime.store.home import Home
from posttrain.spec.place import SlurmPlace

if TYPE_CHECKING:
    from posttrain.runtime.execution.dry_run import StepForecast
    from posttrain.spec.place import Place
    from posttrain.spec.plan import Plan, Step


def print_requests(plan: "Plan", prospects: "Mapping[str, StepForecast]", name: str, place: "Place") -> None:
    """Print the request of each step that a run would submit."""
    steps = _pending(plan, prospects)
    if not steps:
        return
    click.echo(f"requests at {name} ({_describe_place(place)}):")
    specs = JobSpecs(place)
    rows = [
        (
            step.id,
            describe_request(step_request(step, place)),
            unmet_limit(step, place) or ("shared node" if specs.pool_name(step) else "own job"),
        )
        for step in steps
    ]
    print_table(("step", "request", "job"), rows)


def print_batch_scripts(
    plan: "Plan", prospects: "Mapping[str, StepForecast]", home: Home, name: str, place: "Place"
) -> None:
    """Print the batch script of each step that a run would submit."""
    from posttrain.runtime.runners.cluster.slurm_script import batch_script

    if not isinstance(place, SlurmPlace):
        raise InvalidUsage(f"the place `{name}` has the engine {place.engine}, which has no batch scripts")
    specs = JobSpecs(place)
    for step in _pending(plan, prospects):
        if (limit := unmet_limit(step, place)) is not None:
            raise InvalidUsage(f"`{step.id}` cannot run at `{name}`: {limit}")
        work = home.workdir(step.key)
        pool = specs.pool_name(step)
        job = specs.pool_job(work, pool, step) if pool else specs.step_job(work, step)
        click.echo(
            f"# {step.id}: `recipe run` prepares its files and submits this\n{batch_script(job, place)}"
        )


def _pending(plan: "Plan", prospects: "Mapping[str, StepForecast]") -> "list[Step]":
    return [step for step in plan.steps if prospects[step.id].state in PENDING_STATES]


def _describe_place(place: "Place") -> str:
    if isinstance(place, SlurmPlace):
        named = [
            f"{key} {value}" for key in ("partition", "account", "qos") if (value := getattr(place, key))
        ]
        named += [f"at most {place.time_limit}"] if place.time_limit else []
    else:
        named = [place.address]
    return ", ".join([place.engine, *named])
