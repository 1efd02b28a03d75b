"""`recipe run`: run a recipe; reuse finished steps and resume interrupted ones."""

import gc
from typing import TYPE_CHECKING, Unpack

import click

from posttrain.cli.compile import locked_option, recipe_file, settings_option
from posttrain.cli.diagnostics_output import compile_or_exit
from posttrain.cli.home_option import home_option, resolve_home
from posttrain.cli.interrupts import EXIT_INTERRUPTED, handle_interrupts
from posttrain.cli.invalid_usage import EXIT_ERRORS, InvalidUsage
from posttrain.cli.label_options import label_options, new_labels
from posttrain.cli.place_option import find_place, place_option
from posttrain.cli.recipe_trust import RunTrust, require_trust, run_trust_options
from posttrain.cli.remote_recipe import registry_errors
from posttrain.cli.selection_options import parse_selection, select_steps, selection_options
from posttrain.runtime.execution.stop_request import DEFAULT_STOP_SECONDS, StopRequest
from posttrain.runtime.store.home import Home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.runtime.execution.run_plan import CacheOptions, RunOptions
    from posttrain.runtime.execution.selection import Selection
    from posttrain.spec.plan import Plan, Step


@click.command("run")
@click.argument("path", default=".", metavar="PATH")
@settings_option
@selection_options
@locked_option
@home_option
@place_option
@run_trust_options
@click.option(
    "--cache",
    metavar="oci://HOST/NAME",
    help="A repository with the products of others: what it has does not run here, and what runs is pushed to"
    " it.",
)
@click.option(
    "--cache-mode",
    type=click.Choice(["read-write", "read"]),
    default="read-write",
    show_default=True,
    help="Whether to push products to the cache.",
)
@click.option(
    "--stop-timeout",
    type=click.FloatRange(min=0),
    default=DEFAULT_STOP_SECONDS,
    envvar="RECIPE_STOP_TIMEOUT",
    metavar="SECONDS",
    help="The time that steps have to save a checkpoint after Ctrl-C or SIGTERM; default:"
    " $RECIPE_STOP_TIMEOUT, or 60. Those that still run then are killed; the next run resumes them from their"
    " last checkpoint.",
)
@label_options
@click.option("--dry-run", is_flag=True, help="Show what would run, and run nothing.")
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
    cache: str | None,
    cache_mode: str,
    stop_timeout: float,
    name: str | None,
    tags: tuple[str, ...],
    note: str | None,
    dry_run: bool,
    **trust: Unpack[RunTrust],
) -> None:
    """Run the recipe at PATH. Finished steps do not run again."""
    gc.disable()  # objects that exist before the run live until its end
    file = recipe_file(path)
    outcome = compile_or_exit(file, settings, profiles, locked=locked)
    plan = outcome.plan
    assert plan is not None, "a recipe that compiles has a plan"
    place = None if place_name is None else find_place(place_name)
    where = resolve_home(home, place)
    selection = parse_selection(only, first, last, skip)
    shared = _cache_options(cache, cache_mode)
    labels = new_labels(name, tags, note)
    if dry_run:
        _print_forecast(plan, where, select_steps(plan, selection), shared)
        return
    from posttrain.runtime.artifacts.foreign_code import foreign_actions

    require_trust(path, file, outcome.artifacts, foreign_actions(plan), trust)
    from posttrain.runtime.execution.run_plan import RunOptions

    gc.freeze()
    gc.enable()
    options = RunOptions(recipe=file, selection=selection, place=place, cache=shared, labels=labels)
    status = run_and_print(plan, where, options, StopRequest(stop_timeout))
    gc.unfreeze()  # leak checks of libraries at exit complain about frozen objects
    if status:
        raise click.exceptions.Exit(status)


def _print_forecast(
    plan: "Plan", home: Home, selection: "Selection | None", shared: "CacheOptions | None"
) -> None:
    """Print what would run, and what would be fetched from the cache."""
    from posttrain.cli.text_tables import print_plan_table
    from posttrain.runtime.execution.dry_run import forecast_plan

    chosen = [step for step in plan.steps if selection is None or step.id in selection.steps]
    fetched = {} if shared is None else _find_cached(chosen, home, shared)
    print_plan_table(plan, forecast_plan(plan, home, selection, fetched))


def _find_cached(steps: "Sequence[Step]", home: Home, shared: "CacheOptions") -> dict[str, str]:
    """The keys of the products that a run would fetch, with their sizes."""
    from posttrain.runtime.artifacts.shared_cache import SharedCache
    from posttrain.runtime.report.number_format import format_size

    cache = SharedCache(home, shared.reference, writes=False, note=lambda text: click.echo(text, err=True))
    found = cache.find(steps)
    cache.close(wait=True)
    return {one.step.key: f"fetched from the cache ({format_size(one.size)})" for one in found}


def _cache_options(cache: str | None, mode: str) -> "CacheOptions | None":
    if cache is None:
        return None
    from posttrain.runtime.execution.run_plan import CacheOptions
    from posttrain.runtime.registry.oci_reference import parse_reference

    with registry_errors():
        reference = parse_reference(cache)
    if reference.tag or reference.digest:
        raise InvalidUsage(f"--cache takes a repository without a tag, such as {reference.repository}")
    return CacheOptions(reference=reference, writes=mode == "read-write")


def run_and_print(plan: "Plan", home: Home, options: "RunOptions", stop_request: StopRequest) -> int:
    """Run the plan, print its progress and result, and return the exit status."""
    from posttrain.cli.progress_display import ProgressDisplay
    from posttrain.runtime.execution.run_errors import HomeNotWritable, PreflightFailed, SelectionError
    from posttrain.runtime.execution.run_plan import run_plan

    folder = options.recipe.parent
    try:
        with ProgressDisplay(plan, folder) as display, handle_interrupts(stop_request, display.note):
            result = run_plan(plan, home, options, display, stop_request)
    except SelectionError as error:
        raise InvalidUsage(str(error)) from None
    except HomeNotWritable as error:
        raise click.ClickException(f"{error}; set another folder with --home or RECIPE_HOME") from None
    except PreflightFailed:
        click.echo("the run did not start: correct the errors above, and run again", err=True)
        return EXIT_ERRORS
    display.summary(result)
    if result.succeeded:
        return 0
    return EXIT_INTERRUPTED if result.stopped else EXIT_ERRORS
