"""`recipe plan`: show what a run would do, and why."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from posttrain.cli.compile import locked_option, recipe_file, settings_option
from posttrain.cli.diagnostics_output import compile_or_exit, diagnostics_option, limit_option
from posttrain.cli.home_option import home_option, resolve_home
from posttrain.cli.invalid_usage import EXIT_ERRORS, InvalidUsage
from posttrain.cli.place_option import find_place, place_option
from posttrain.cli.recipe_trust import RunTrust, require_trust, run_trust_options
from posttrain.cli.selection_options import parse_selection, select_steps, selection_options
from posttrain.runtime.store.home import Home
from posttrain.spec.diagnostic import has_errors

if TYPE_CHECKING:
    from posttrain.runtime.execution.dry_run import StepForecast
    from posttrain.runtime.execution.selection import Selection
    from posttrain.spec.diagnostic import Diagnostic
    from posttrain.spec.place import Place
    from posttrain.spec.plan import Plan

EXIT_PENDING = 2


@click.command("plan")
@click.argument("path", default=".", metavar="PATH")
@settings_option
@selection_options
@locked_option
@home_option
@place_option
@click.option(
    "--format",
    "shown",
    type=click.Choice(["text", "json", "markdown", "mermaid", "sbatch"]),
    default="text",
    help="The output format: a table, the plan as JSON, Markdown for a comment on a pull request, a Mermaid"
    " flowchart, or the batch scripts of the jobs that `run --on PLACE` submits to Slurm.",
)
@click.option(
    "--against",
    metavar="REF",
    help="Show what changed since this revision of the git repository: the steps to run again and their cost."
    " --set and --profile apply to both sides.",
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
@click.option(
    "--verbose", "-v", is_flag=True, help="With --step, show the digests of the key and of its parts."
)
@click.option(
    "--check",
    is_flag=True,
    help="Check what the steps need before they run: secrets, functions, endpoints, the hub, disk space, the"
    " machine, images. With --format json, print only the findings. Exit with status 1 after an error.",
)
@click.option("--exit-code", is_flag=True, help="Exit with status 2 if steps must run, 0 if not.")
@run_trust_options
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
    place_name: str | None,
    shown: str,
    against: str | None,
    form: str,
    limit: int,
    steps: tuple[str, ...],
    verbose: bool,
    check: bool,
    exit_code: bool,
    **trust: Unpack[RunTrust],
) -> None:
    """Compile the recipe at PATH and show its steps: cached, to resume or to run, and why.

    The profiles that are not applied are checked too: exit with status 1 if one of them has errors.
    """
    from posttrain.runtime.execution.dry_run import forecast_plan

    _check_options(shown, place_name, verbose, steps)
    file = recipe_file(path)
    place = None if place_name is None else find_place(place_name)
    where = resolve_home(home, place)
    if against is not None:
        chosen = any((only, first, last, skip, steps, check, place))
        _compare(file, against, settings, profiles, locked, where, shown, limit, chosen, exit_code)
        return
    outcome = compile_or_exit(file, settings, profiles, form, locked, check_profiles=True, limit=limit)
    plan = outcome.plan
    assert plan is not None, "a recipe that compiles has a plan"
    if check:  # it starts the interpreters that the recipe names, and sends secrets to its endpoints
        from posttrain.runtime.artifacts.foreign_code import foreign_actions

        require_trust(path, file, outcome.artifacts, foreign_actions(plan), trust)
    selection = select_steps(plan, parse_selection(only, first, last, skip))
    if check and shown == "json":
        _check(plan, file, where, selection, shown, place)
        return
    if shown == "json":
        from posttrain.spec.plan import plan_to_json

        click.echo(plan_to_json(plan), nl=False)
        if not exit_code and not has_errors(outcome.diagnostics):
            return
    prospects = forecast_plan(plan, where, selection)
    if steps:
        _print_steps(plan, prospects, steps, verbose)
    else:
        _print_overview(file, plan, prospects, shown, locked)
    if place is not None and place_name is not None:
        _print_place(plan, prospects, shown, where, place_name, place)
    if check:
        _check(plan, file, where, selection, shown, place)
    _exit(exit_code, outcome.diagnostics, prospects)


def _check_options(shown: str, place_name: str | None, verbose: bool, steps: tuple[str, ...]) -> None:
    if shown == "sbatch" and place_name is None:
        raise InvalidUsage("--format sbatch needs a place with Slurm: add --on PLACE")
    if verbose and not steps:
        raise InvalidUsage("--verbose shows the digests of a step's key: add --step NAME")


def _exit(
    exit_code: bool, diagnostics: "tuple[Diagnostic, ...]", prospects: "Mapping[str, StepForecast]"
) -> None:
    """Exit with status 1 after errors of profiles; with --exit-code, with status 2 if steps must run."""
    from posttrain.cli.text_tables import PENDING_STATES

    if has_errors(diagnostics):
        raise click.exceptions.Exit(EXIT_ERRORS)
    if exit_code and any(prospect.state in PENDING_STATES for prospect in prospects.values()):
        raise click.exceptions.Exit(EXIT_PENDING)


def _compare(
    file: Path,
    revision: str,
    settings: tuple[str, ...],
    profiles: tuple[str, ...],
    locked: bool,
    home: Home,
    shown: str,
    limit: int,
    chosen: bool,
    exit_code: bool,
) -> None:
    """Print what changed since a revision. `chosen` says whether options select a part of the plan."""
    from posttrain.cli.plan_against import print_comparison

    if chosen:
        raise InvalidUsage("--against compares whole recipes: it takes no selection, --step, --check or --on")
    report = print_comparison(file, revision, settings, profiles, locked, home, shown, limit)
    if exit_code and report.pending:
        raise click.exceptions.Exit(EXIT_PENDING)


def _print_overview(
    file: Path, plan: "Plan", prospects: "Mapping[str, StepForecast]", shown: str, locked: bool
) -> None:
    if shown == "text":
        from posttrain.cli.text_tables import print_plan_table

        print_plan_table(plan, prospects, locked)
    elif shown == "markdown":
        from posttrain.cli.plan_markdown import plan_markdown

        click.echo(plan_markdown(file, plan, prospects), nl=False)
    elif shown == "mermaid":
        from posttrain.cli.mermaid import flowchart

        click.echo(flowchart(plan, prospects), nl=False)


def _print_place(
    plan: "Plan", prospects: "Mapping[str, StepForecast]", shown: str, home: Home, name: str, place: "Place"
) -> None:
    from posttrain.cli.place_requests import print_batch_scripts, print_requests

    if shown == "text":
        print_requests(plan, prospects, name, place)
    elif shown == "sbatch":
        print_batch_scripts(plan, prospects, home, name, place)


def _check(
    plan: "Plan", file: Path, home: Home, selection: "Selection | None", shown: str, place: "Place | None"
) -> None:
    """Print the findings of the preflight; exit after an error."""
    from posttrain.cli.preflight_output import findings_document, print_findings
    from posttrain.runtime.preflight.finding import has_errors
    from posttrain.runtime.preflight.run_preflight import run_preflight

    selected = None if selection is None else selection.steps
    findings = run_preflight(plan, home, file.parent, selected, place=place)
    if shown == "json":
        click.echo(findings_document(findings), nl=False)
    elif findings:
        print_findings(findings, file.parent)
    else:
        click.echo("the checks before a run found no problem")
    if has_errors(findings):
        raise click.exceptions.Exit(EXIT_ERRORS)


def _print_steps(
    plan: "Plan", prospects: "Mapping[str, StepForecast]", names: tuple[str, ...], verbose: bool
) -> None:
    """Print all details of the named steps. A name without `@` selects all matrix legs of the stage."""
    from posttrain.cli.step_details import print_step_details

    for name in names:
        found = [step for step in plan.steps if name in (step.id, step.id.partition("@")[0])]
        if not found:
            from posttrain.spec.suggestions import hint

            help, _ = hint(name, [step.id for step in plan.steps], what="steps")
            raise InvalidUsage(f"the plan has no step `{name}`; {help}")
        for step in found:
            print_step_details(step, prospects[step.id], verbose=verbose)
