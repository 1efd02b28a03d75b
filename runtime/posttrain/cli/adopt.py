"""`recipe adopt`: accept an older product for a stage whose environment changed, and record the reason."""

from pathlib import Path

import click

from posttrain.cli.compile import EXIT_ERRORS, InvalidUsage, recipe_file, settings_option
from posttrain.cli.diagnostics_output import compile_or_exit
from posttrain.cli.home_option import home_option, resolve_home
from posttrain.runtime.store.home import Home
from posttrain.spec.plan import Plan, Step


@click.command("adopt")
@click.argument("stages", nargs=-1, required=True, metavar="STAGE...")
@click.option(
    "--recipe",
    "path",
    default=".",
    metavar="PATH",
    help="The recipe; default: recipe.yaml in the current folder.",
)
@click.option(
    "--because",
    required=True,
    metavar="TEXT",
    help="Why the older product is acceptable; recorded with the product.",
)
@settings_option
@home_option
def command(
    stages: tuple[str, ...],
    path: str,
    because: str,
    settings: tuple[str, ...],
    profiles: tuple[str, ...],
    home: str | None,
) -> None:
    """Accept older products of STAGE... where only the environment or extension versions differ."""
    file = recipe_file(path)
    plan = compile_or_exit(file, settings, profiles).plan
    assert plan is not None, "a recipe that compiles has a plan"
    where = resolve_home(home)
    from posttrain.runtime.store.adoption import AdoptionError

    refused = False
    adopted: dict[str, str] = {}
    for step in _select_steps(plan, stages):
        if step.pinned and where.store.find(step.key) is not None:
            click.echo(f"{step.id}: nothing to adopt: its product already exists")
            continue
        try:
            adopted[step.id] = _adopt_step(where, step, because)
            click.echo(f"{step.id}: {adopted[step.id]}")
        except AdoptionError as error:
            refused = True
            click.echo(f"{step.id}: not adopted; {error}", err=True)
    if adopted:
        _record_adoption(where, plan, file, adopted)
    if refused:
        raise click.exceptions.Exit(EXIT_ERRORS)


def _select_steps(plan: Plan, stages: tuple[str, ...]) -> list[Step]:
    """The named steps in the order of the plan, so that inputs are adopted before their users."""
    from posttrain.runtime.execution.selection import SelectionError, SelectionOptions, select_steps

    try:
        chosen = select_steps(plan, SelectionOptions(only=stages)).steps
    except SelectionError as error:
        raise InvalidUsage(str(error)) from None
    named = {step.id for step in plan.steps if step.id in stages or step.id.partition("@")[0] in stages}
    return [step for step in plan.steps if step.id in chosen & named]


def _adopt_step(home: Home, step: Step, because: str) -> str:
    """Adopt a product for one step; return the note to print."""
    from posttrain.runtime.store.adoption import AdoptionError, adopt, find_adoptable
    from posttrain.runtime.store.file_locks import try_lock

    if not step.pinned:
        raise AdoptionError("its inputs are not pinned, so no older product is comparable")
    lock = try_lock(home.step_lock(step.key))
    if lock is None:
        raise AdoptionError("a run is executing it")
    try:
        return adopt(home, step, find_adoptable(step, home.store), because).adoption_note
    finally:
        lock.release()


def _record_adoption(home: Home, plan: Plan, file: Path, adopted: dict[str, str]) -> None:
    """Record a run that executed no step and names the adopted products."""
    from posttrain.runtime.store.journal import Journal
    from posttrain.runtime.store.runs import finish_run, new_run

    folder = new_run(home, plan, file.absolute())
    journal = Journal(folder / "journal.sqlite")
    states = {step.id: "cached" if step.id in adopted else "skipped" for step in plan.steps}
    for id, state in states.items():
        journal.update_step(id, state, reason=adopted.get(id, "not selected"))
    finish_run(journal, states)
    journal.close()
