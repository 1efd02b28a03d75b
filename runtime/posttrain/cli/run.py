"""`recipe run`: carry a recipe out, from wherever earlier runs got to."""

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from posttrain.cli.homes import home_of, home_option
from posttrain.cli.loading import ERRORS, Misuse, locked_option, recipe_file, settings_option
from posttrain.cli.reporting import must_compile
from posttrain.cli.selecting import selected, selecting_options
from posttrain.runtime.keeping.home import Home
from posttrain.spec.plan import Plan, Step

if TYPE_CHECKING:
    from posttrain.runtime.execution.selection import Selection
    from posttrain.runtime.machine import Machine

INTERRUPTED = 130


@click.command("run")
@click.argument("path", default=".", metavar="PATH")
@settings_option
@selecting_options
@locked_option
@home_option
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
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
    """Run the recipe at PATH. Steps that finished before are not run again."""
    gc.disable()  # what is built before the run begins lives as long as the run
    file = recipe_file(path)
    plan = must_compile(file, settings, profiles, locked=locked).plan
    assert plan is not None, "a recipe that compiles has a plan"
    where = home_of(home)
    selection = selected(plan, only, first, last, skip)
    if dry_run:
        from posttrain.cli.tables import plan_table
        from posttrain.runtime.execution.outlook import outlook

        plan_table(plan, outlook(plan, where, selection))
        return
    if refusal := where.refusal():
        raise click.ClickException(f"{refusal}; name another folder by --home or RECIPE_HOME")
    machine = _checked(plan, where, selection)
    gc.freeze()
    gc.enable()
    status = _run(plan, file, where, selection, machine)
    gc.unfreeze()  # libraries that count what is left at the end complain about what is frozen
    if status:
        raise click.exceptions.Exit(status)


def _checked(plan: Plan, home: Home, selection: "Selection | None") -> "Machine":
    """This machine, when all that is to be run can be run on it."""
    from posttrain.runtime.execution.selection import Unselectable, check
    from posttrain.runtime.machine import this_machine, too_large

    def made(step: Step) -> bool:
        return step.pinned and home.store.find(step.key) is not None

    if selection is not None:
        try:
            check(plan, selection, made)
        except Unselectable as error:
            raise Misuse(str(error)) from None
    machine = this_machine(gpus=any(step.resources.gpus for step in plan.steps))
    chosen = [step for step in plan.steps if selection is None or step.id in selection.steps]
    too_much = [step for step in chosen if too_large([step], machine) and not made(step)]
    if too_much:
        raise click.ClickException("\n       ".join(too_large(too_much, machine)))
    return machine


def _run(plan: Plan, file: Path, home: Home, selection: "Selection | None", machine: "Machine") -> int:
    from posttrain.cli.display import Display
    from posttrain.cli.interrupts import interrupts
    from posttrain.runtime.execution.executor import execute
    from posttrain.runtime.execution.progress import WELL
    from posttrain.runtime.execution.surroundings import Surroundings
    from posttrain.runtime.keeping.journal import Journal
    from posttrain.runtime.keeping.locks import lock
    from posttrain.runtime.keeping.runs import finish_run, new_run

    folder = new_run(home, plan, file.absolute())
    alive = lock(home.alive(folder))
    journal = Journal(folder / "journal.sqlite")
    with Display(plan, folder) as display:
        around = Surroundings(
            home=home,
            beside=file.parent,
            journal=journal,
            watch=display.changed,
            run=folder.name,
            selection=selection,
            machine=machine,
        )
        with _tracked(plan, home, folder, display.note), interrupts(around.stopping, display.note):
            states = execute(plan, around)
    finish_run(journal, states)
    journal.close()
    alive.discard()
    if any(state not in ("cached", "skipped") for state in states.values()):  # else there is no news
        _report(home, folder)
    display.summary(states, home, folder)
    if all(state in WELL for state in states.values()):
        return 0
    return INTERRUPTED if around.stopping.level else ERRORS


def _tracked(
    plan: Plan, home: Home, folder: Path, note: Callable[[str], None]
) -> AbstractContextManager[object]:
    if not plan.tracking:
        return nullcontext()
    from posttrain.runtime.trackers.tracking import Tracking

    return Tracking(plan, home, folder, note)


def _report(home: Home, folder: Path) -> None:
    """Write the run's page. When that fails, what the run has made and how it ended still stand."""
    from posttrain.runtime.report.write import write_report

    try:
        write_report(home, folder)
    except Exception as error:
        click.echo(f"the report could not be written ({error}); `recipe report` tries again", err=True)
