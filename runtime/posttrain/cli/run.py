"""`recipe run`: run a recipe; reuse finished steps and resume interrupted ones."""

import gc
from typing import TYPE_CHECKING

import click

from posttrain.cli.compile import locked_option, recipe_file, settings_option
from posttrain.cli.diagnostics_output import compile_or_exit
from posttrain.cli.home_option import home_option, resolve_home
from posttrain.cli.interrupts import EXIT_INTERRUPTED, handle_interrupts
from posttrain.cli.invalid_usage import EXIT_ERRORS, InvalidUsage
from posttrain.cli.place_option import find_place, place_option
from posttrain.cli.selection_options import parse_selection, select_steps, selection_options
from posttrain.runtime.execution.stop_request import DEFAULT_STOP_SECONDS, StopRequest
from posttrain.runtime.store.home import Home

if TYPE_CHECKING:
    from posttrain.runtime.execution.run_plan import RunOptions
    from posttrain.spec.plan import Plan


@click.command("run")
@click.argument("path", default=".", metavar="PATH")
@settings_option
@selection_options
@locked_option
@home_option
@place_option
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
    stop_timeout: float,
    dry_run: bool,
) -> None:
    """Run the recipe at PATH. Finished steps do not run again."""
    gc.disable()  # objects that exist before the run live until its end
    file = recipe_file(path)
    plan = compile_or_exit(file, settings, profiles, locked=locked).plan
    assert plan is not None, "a recipe that compiles has a plan"
    place = None if place_name is None else find_place(place_name)
    where = resolve_home(home, place)
    selection = parse_selection(only, first, last, skip)
    if dry_run:
        from posttrain.cli.text_tables import print_plan_table
        from posttrain.runtime.execution.dry_run import forecast_plan

        print_plan_table(plan, forecast_plan(plan, where, select_steps(plan, selection)))
        return
    from posttrain.runtime.execution.run_plan import RunOptions

    gc.freeze()
    gc.enable()
    options = RunOptions(recipe=file, selection=selection, place=place)
    status = _run(plan, where, options, StopRequest(stop_timeout))
    gc.unfreeze()  # leak checks of libraries at exit complain about frozen objects
    if status:
        raise click.exceptions.Exit(status)


def _run(plan: "Plan", home: Home, options: "RunOptions", stop_request: StopRequest) -> int:
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
