"""`recipe plan`: show what a run would do, and why."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from posttrain.cli.compile import locked_option, recipe_file, settings_option
from posttrain.cli.diagnostics_output import compile_or_exit, diagnostics_option, limit_option
from posttrain.cli.home_option import home_option, resolve_home
from posttrain.cli.invalid_usage import EXIT_ERRORS, InvalidUsage
from posttrain.cli.selection_options import parse_selection, select_steps, selection_options
from posttrain.spec.diagnostic import has_errors

if TYPE_CHECKING:
    from posttrain.runtime.execution.dry_run import StepForecast
    from posttrain.spec.plan import Plan

EXIT_PENDING = 2


@click.command("plan")
@click.argument("path", default=".", metavar="PATH")
@settings_option
@selection_options
@locked_option
@home_option
@click.option(
    "--format",
    "shown",
    type=click.Choice(["text", "json", "mermaid"]),
    default="text",
    help="The output format: a table, the plan as JSON, or a Mermaid flowchart.",
)
@diagnostics_option("--diagnostics")
@limit_option
@click.option(
    "--step",
    "steps",
    multiple=True,
    metavar="NAME",
    help="Show only this step, with all details: placement, memory, time, the parts of its key.",
)
@click.option("--exit-code", is_flag=True, help="Exit with status 2 if steps must run, 0 if not.")
def command(
    path: str,
    settings: tuple[str, ...],
    profiles: tuple[str, ...],
    only: tuple[str, ...],
    first: tuple[str, ...],
    last: tuple[str, ...],
    skip: tuple[str, ...],
    locked: bool,
    home: str | None,
    shown: str,
    form: str,
    limit: int,
    steps: tuple[str, ...],
    exit_code: bool,
) -> None:
    """Compile the recipe at PATH and show its steps: cached, to resume or to run, and why.

    The profiles that are not applied are checked too: exit with status 1 if one of them has errors.
    """
    from posttrain.runtime.execution.dry_run import forecast_plan

    outcome = compile_or_exit(
        recipe_file(path), settings, profiles, form, locked, check_profiles=True, limit=limit
    )
    plan = outcome.plan
    assert plan is not None, "a recipe that compiles has a plan"
    selection = select_steps(plan, parse_selection(only, first, last, skip))
    if shown == "json":
        from posttrain.spec.plan import plan_to_json

        click.echo(plan_to_json(plan), nl=False)
        if not exit_code and not has_errors(outcome.diagnostics):
            return
    prospects = forecast_plan(plan, resolve_home(home), selection)
    if steps:
        _print_steps(plan, prospects, steps)
    elif shown == "text":
        from posttrain.cli.text_tables import print_plan_table

        print_plan_table(plan, prospects, locked)
    elif shown == "mermaid":
        from posttrain.cli.mermaid import flowchart

        click.echo(flowchart(plan, prospects), nl=False)
    if has_errors(outcome.diagnostics):
        raise click.exceptions.Exit(EXIT_ERRORS)
    if exit_code:
        from posttrain.cli.text_tables import PENDING_STATES

        if any(prospect.state in PENDING_STATES for prospect in prospects.values()):
            raise click.exceptions.Exit(EXIT_PENDING)


def _print_steps(plan: "Plan", prospects: "Mapping[str, StepForecast]", names: tuple[str, ...]) -> None:
    """Print all details of the named steps. A name without `@` selects all matrix legs of the stage."""
    from posttrain.cli.step_details import print_step_details

    for name in names:
        found = [step for step in plan.steps if name in (step.id, step.id.partition("@")[0])]
        if not found:
            from posttrain.spec.suggestions import hint

            help, _ = hint(name, [step.id for step in plan.steps], what="steps")
            raise InvalidUsage(f"the plan has no step `{name}`; {help}")
        for step in found:
            print_step_details(step, prospects[step.id])
