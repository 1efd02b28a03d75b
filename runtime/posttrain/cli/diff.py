"""`recipe diff`: compare two recipes, plans or runs, and estimate the cost of the changes."""

from dataclasses import replace

import click

from posttrain.cli.compile import settings_option
from posttrain.cli.home_option import home_option, resolve_home

EXIT_DIFFERENT = 2


@click.command("diff")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@settings_option
@home_option
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="The output format."
)
@click.option("--exit-code", is_flag=True, help="Exit with status 2 if A and B differ, 0 if not.")
def command(
    before: str,
    after: str,
    settings: tuple[str, ...],
    profiles: tuple[str, ...],
    home: str | None,
    form: str,
    exit_code: bool,
) -> None:
    """Compare A with B. Each is a recipe, a plan from `recipe plan --format json`, or the start of the name
    of a run. Of two runs, the metrics are compared too, item by item where both have the items.

    --set and --profile apply to B, so `recipe diff . . --set seed=1` shows the cost of a change. Cached steps
    cost nothing.
    """
    from posttrain.cli.diff_inputs import read_diff_input
    from posttrain.cli.diff_report import DiffReport, to_json, to_text
    from posttrain.compiler.diff.plan_diff import compare_plans
    from posttrain.runtime.execution.dry_run import forecast_plan

    where = resolve_home(home)
    old = read_diff_input(before, where, (), ())
    new = read_diff_input(after, where, settings, profiles)
    compared = compare_plans(old.plan, new.plan)
    cached = {id for id, prospect in forecast_plan(new.plan, where).items() if prospect.state == "cached"}
    report = DiffReport.from_comparison(compared, old.request, new.request, cached)
    if old.run is not None and new.run is not None:
        from posttrain.cli.metric_differences import compare_metrics

        report = replace(report, metrics=compare_metrics(old.run, new.run))
    click.echo(to_json(report) if form == "json" else to_text(report), nl=False)
    if exit_code and not report.is_empty:
        raise click.exceptions.Exit(EXIT_DIFFERENT)
