"""`recipe plan`: what a run would do, and why, without doing it."""

import click

from posttrain.cli.homes import home_of, home_option
from posttrain.cli.loading import recipe_file, settings_option
from posttrain.cli.reporting import diagnostics_option, must_compile

WORK_PENDING = 2


@click.command("plan")
@click.argument("path", default=".", metavar="PATH")
@settings_option
@home_option
@click.option(
    "--format",
    "shown",
    type=click.Choice(["text", "json"]),
    default="text",
    help="A table for people, or the plan itself.",
)
@diagnostics_option("--diagnostics")
@click.option("--exit-code", is_flag=True, help="End with status 2 when there is work to do, 0 when none.")
def command(
    path: str,
    settings: tuple[str, ...],
    profiles: tuple[str, ...],
    home: str | None,
    shown: str,
    form: str,
    exit_code: bool,
) -> None:
    """Compile the recipe at PATH and show its steps: cached, to resume or to run, and why."""
    from posttrain.runtime.outlook import outlook

    plan = must_compile(recipe_file(path), settings, profiles, form).plan
    assert plan is not None, "a recipe that compiles has a plan"
    if shown == "json":
        from posttrain.spec.plan import to_json

        click.echo(to_json(plan), nl=False)
        if not exit_code:
            return
    prospects = outlook(plan, home_of(home))
    if shown == "text":
        from posttrain.cli.tables import plan_table

        plan_table(plan, prospects)
    if exit_code and any(prospect.state != "cached" for prospect in prospects.values()):
        raise click.exceptions.Exit(WORK_PENDING)
