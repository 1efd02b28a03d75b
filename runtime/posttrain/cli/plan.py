"""`recipe plan`: what a run would do, and why, without doing it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from posttrain.cli.homes import home_of, home_option
from posttrain.cli.loading import Misuse, locked_option, recipe_file, settings_option
from posttrain.cli.reporting import diagnostics_option, must_compile
from posttrain.cli.selecting import selected, selecting_options

if TYPE_CHECKING:
    from posttrain.runtime.execution.outlook import Prospect
    from posttrain.spec.plan import Plan

WORK_PENDING = 2


@click.command("plan")
@click.argument("path", default=".", metavar="PATH")
@settings_option
@selecting_options
@locked_option
@home_option
@click.option(
    "--format",
    "shown",
    type=click.Choice(["text", "json", "mermaid"]),
    default="text",
    help="A table for people, the plan itself, or a flowchart of it.",
)
@diagnostics_option("--diagnostics")
@click.option(
    "--step",
    "steps",
    multiple=True,
    metavar="NAME",
    help="Show this step alone and in full: placement, memory, time, what its key is made of.",
)
@click.option("--exit-code", is_flag=True, help="End with status 2 when there is work to do, 0 when none.")
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
    steps: tuple[str, ...],
    exit_code: bool,
) -> None:
    """Compile the recipe at PATH and show its steps: cached, to resume or to run, and why."""
    from posttrain.runtime.execution.outlook import outlook

    plan = must_compile(recipe_file(path), settings, profiles, form, locked).plan
    assert plan is not None, "a recipe that compiles has a plan"
    selection = selected(plan, only, first, last, skip)
    if shown == "json":
        from posttrain.spec.plan import to_json

        click.echo(to_json(plan), nl=False)
        if not exit_code:
            return
    prospects = outlook(plan, home_of(home), selection)
    if steps:
        _detailed(plan, prospects, steps)
    elif shown == "text":
        from posttrain.cli.tables import plan_table

        plan_table(plan, prospects, locked)
    elif shown == "mermaid":
        from posttrain.cli.mermaid import flowchart

        click.echo(flowchart(plan, prospects), nl=False)
    if exit_code:
        from posttrain.cli.tables import PENDING

        if any(prospect.state in PENDING for prospect in prospects.values()):
            raise click.exceptions.Exit(WORK_PENDING)


def _detailed(plan: "Plan", prospects: "Mapping[str, Prospect]", names: tuple[str, ...]) -> None:
    """The steps of these names, each in full; a name alone means all its legs."""
    from posttrain.cli.details import show_details

    for name in names:
        found = [step for step in plan.steps if name in (step.id, step.id.partition("@")[0])]
        if not found:
            from posttrain.compiler.diagnosis.suggest import hint

            help, _ = hint(name, [step.id for step in plan.steps], what="steps")
            raise Misuse(f"the plan has no step `{name}`; {help}")
        for step in found:
            show_details(step, prospects[step.id])
