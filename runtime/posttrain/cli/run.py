"""`recipe run`: run a recipe; reuse finished steps and resume interrupted ones."""

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from posttrain.cli.compile import EXIT_ERRORS, InvalidUsage, locked_option, recipe_file, settings_option
from posttrain.cli.diagnostics_output import compile_or_exit
from posttrain.cli.home_option import home_option, resolve_home
from posttrain.cli.selection_options import select_steps, selection_options
from posttrain.runtime.store.home import Home
from posttrain.spec.plan import Plan, Step

if TYPE_CHECKING:
    from posttrain.runtime.execution.selection import Selection
    from posttrain.runtime.machine import Machine

EXIT_INTERRUPTED = 130


@click.command("run")
@click.argument("path", default=".", metavar="PATH")
@settings_option
@selection_options
@locked_option
@home_option
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
    dry_run: bool,
) -> None:
    """Run the recipe at PATH. Finished steps do not run again."""
    gc.disable()  # objects that exist before the run live until its end
    file = recipe_file(path)
    plan = compile_or_exit(file, settings, profiles, locked=locked).plan
    assert plan is not None, "a recipe that compiles has a plan"
    where = resolve_home(home)
    selection = select_steps(plan, only, first, last, skip)
    if dry_run:
        from posttrain.cli.text_tables import print_plan_table
        from posttrain.runtime.execution.dry_run import forecast_plan

        print_plan_table(plan, forecast_plan(plan, where, selection))
        return
    if refusal := where.write_problem():
        raise click.ClickException(f"{refusal}; set another folder with --home or RECIPE_HOME")
    machine = _check_machine(plan, where, selection)
    gc.freeze()
    gc.enable()
    status = _execute(plan, file, where, selection, machine)
    gc.unfreeze()  # leak checks of libraries at exit complain about frozen objects
    if status:
        raise click.exceptions.Exit(status)


def _check_machine(plan: Plan, home: Home, selection: "Selection | None") -> "Machine":
    """Check that this machine has the resources for every selected step; return its description."""
    from posttrain.runtime.execution.selection import SelectionError, check_selection
    from posttrain.runtime.machine import this_machine, unmet_requirements

    def is_finished(step: Step) -> bool:
        return step.pinned and home.store.find(step.key) is not None

    if selection is not None:
        try:
            check_selection(plan, selection, is_finished)
        except SelectionError as error:
            raise InvalidUsage(str(error)) from None
    machine = this_machine(gpus=any(step.resources.gpus for step in plan.steps))
    chosen = [step for step in plan.steps if selection is None or step.id in selection.steps]
    oversized = [step for step in chosen if unmet_requirements([step], machine) and not is_finished(step)]
    if oversized:
        raise click.ClickException("\n       ".join(unmet_requirements(oversized, machine)))
    return machine


def _execute(plan: Plan, file: Path, home: Home, selection: "Selection | None", machine: "Machine") -> int:
    from posttrain.cli.interrupts import handle_interrupts
    from posttrain.cli.progress_display import ProgressDisplay
    from posttrain.runtime.execution.executor import execute
    from posttrain.runtime.execution.run_context import RunContext
    from posttrain.runtime.execution.step_progress import SATISFIED_STATES
    from posttrain.runtime.store.file_locks import acquire_lock
    from posttrain.runtime.store.journal import Journal
    from posttrain.runtime.store.runs import finish_run, new_run

    folder = new_run(home, plan, file.absolute())
    alive = acquire_lock(home.run_lock(folder))
    journal = Journal(folder / "journal.sqlite")
    with ProgressDisplay(plan, folder) as display:
        context = RunContext(
            home=home,
            recipe_dir=file.parent,
            journal=journal,
            on_state_change=display.on_change,
            run_name=folder.name,
            selection=selection,
            machine=machine,
        )
        with (
            _launch_trackers(plan, home, folder, display.note),
            handle_interrupts(context.stop_request, display.note),
        ):
            states = execute(plan, context)
    finish_run(journal, states)
    journal.close()
    alive.discard()
    if any(state not in ("cached", "skipped") for state in states.values()):  # otherwise nothing has changed
        _write_report(home, folder)
    display.summary(states, home, folder)
    if all(state in SATISFIED_STATES for state in states.values()):
        return 0
    return EXIT_INTERRUPTED if context.stop_request.level else EXIT_ERRORS


def _launch_trackers(
    plan: Plan, home: Home, folder: Path, note: Callable[[str], None]
) -> AbstractContextManager[object]:
    if not plan.tracking:
        return nullcontext()
    from posttrain.runtime.trackers.tracker_launcher import TrackerLauncher

    return TrackerLauncher(plan, home, folder, note)


def _write_report(home: Home, folder: Path) -> None:
    """Write the report. An error here does not change the result of the run."""
    from posttrain.runtime.report.report_writer import write_report

    try:
        write_report(home, folder)
    except Exception as error:
        click.echo(f"the report could not be written ({error}); retry with `recipe report`", err=True)
