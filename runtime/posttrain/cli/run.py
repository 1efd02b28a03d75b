"""`recipe run`: carry a recipe out, from wherever earlier runs got to."""

from pathlib import Path

import click

from posttrain.cli.homes import home_of, home_option
from posttrain.cli.loading import ERRORS, recipe_file, settings_option
from posttrain.cli.reporting import must_compile
from posttrain.runtime.home import Home
from posttrain.spec.plan import Plan

INTERRUPTED = 130


@click.command("run")
@click.argument("path", default=".", metavar="PATH")
@settings_option
@home_option
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
def command(
    path: str, settings: tuple[str, ...], profiles: tuple[str, ...], home: str | None, dry_run: bool
) -> None:
    """Run the recipe at PATH. Steps that finished before are not run again."""
    file = recipe_file(path)
    plan = must_compile(file, settings, profiles).plan
    assert plan is not None, "a recipe that compiles has a plan"
    where = home_of(home)
    if dry_run:
        from posttrain.cli.tables import plan_table
        from posttrain.runtime.outlook import outlook

        plan_table(plan, outlook(plan, where))
        return
    status = _run(plan, file, where)
    if status:
        raise click.exceptions.Exit(status)


def _run(plan: Plan, file: Path, home: Home) -> int:
    from posttrain.cli.display import Display
    from posttrain.cli.interrupts import interrupts
    from posttrain.runtime.executor import FINISHED, Surroundings, execute
    from posttrain.runtime.journal import Journal
    from posttrain.runtime.runs import finish_run, new_run

    folder = new_run(home, plan, file.absolute())
    journal = Journal(folder / "journal.sqlite")
    with Display(plan, folder) as display:
        around = Surroundings(
            home=home, beside=file.parent, journal=journal, watch=display.changed, run=folder.name
        )
        with interrupts(around.stopping, display.note):
            states = execute(plan, around)
    finish_run(journal, states)
    journal.close()
    _report(home, folder)
    display.summary(states, home, folder)
    if all(state in FINISHED for state in states.values()):
        return 0
    return INTERRUPTED if around.stopping.level else ERRORS


def _report(home: Home, folder: Path) -> None:
    """Write the run's page. When that fails, what the run has made and how it ended still stand."""
    from posttrain.runtime.report.write import write_report

    try:
        write_report(home, folder)
    except Exception as error:
        click.echo(f"the report could not be written ({error}); `recipe report` tries again", err=True)
