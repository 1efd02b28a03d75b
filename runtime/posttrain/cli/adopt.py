"""`recipe adopt`: take an older product for a stage whose environment changed, on the record."""

from pathlib import Path

import click

from posttrain.cli.homes import home_of, home_option
from posttrain.cli.loading import ERRORS, Misuse, recipe_file, settings_option
from posttrain.cli.reporting import must_compile
from posttrain.runtime.keeping.home import Home
from posttrain.spec.plan import Plan, Step


@click.command("adopt")
@click.argument("stages", nargs=-1, required=True, metavar="STAGE...")
@click.option(
    "--recipe", "path", default=".", metavar="PATH", help="The recipe; recipe.yaml here if not given."
)
@click.option("--because", required=True, metavar="TEXT", help="Why the older product will do; kept with it.")
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
    plan = must_compile(file, settings, profiles).plan
    assert plan is not None, "a recipe that compiles has a plan"
    where = home_of(home)
    from posttrain.runtime.keeping.adoption import NotAdoptable

    refused = False
    adopted: dict[str, str] = {}
    for step in _steps(plan, stages):
        if step.pinned and where.store.find(step.key) is not None:
            click.echo(f"{step.id}: its product is there already: nothing to adopt")
            continue
        try:
            adopted[step.id] = _adopted(where, step, because)
            click.echo(f"{step.id}: {adopted[step.id]}")
        except NotAdoptable as error:
            refused = True
            click.echo(f"{step.id}: not adopted; {error}", err=True)
    if adopted:
        _record(where, plan, file, adopted)
    if refused:
        raise click.exceptions.Exit(ERRORS)


def _steps(plan: Plan, stages: tuple[str, ...]) -> list[Step]:
    """The steps of these names, in the plan's order: what one reads is adopted before it."""
    from posttrain.runtime.execution.selection import Unselectable, Wish, select

    try:
        chosen = select(plan, Wish(only=stages)).steps
    except Unselectable as error:
        raise Misuse(str(error)) from None
    named = {step.id for step in plan.steps if step.id in stages or step.id.partition("@")[0] in stages}
    return [step for step in plan.steps if step.id in chosen & named]


def _adopted(home: Home, step: Step, because: str) -> str:
    """Adopt for one step; what to say of it."""
    from posttrain.runtime.keeping.adoption import NotAdoptable, adopt, candidate
    from posttrain.runtime.keeping.locks import try_lock

    if not step.pinned:
        raise NotAdoptable("what goes into it is not pinned: no older product can be held to it")
    lock = try_lock(home.lock(step.key))
    if lock is None:
        raise NotAdoptable("a run is at work on it")
    try:
        return adopt(home, step, candidate(step, home.store), because).came_by
    finally:
        lock.release()


def _record(home: Home, plan: Plan, file: Path, adopted: dict[str, str]) -> None:
    """Write a run that made nothing and names what was adopted."""
    from posttrain.runtime.keeping.journal import Journal
    from posttrain.runtime.keeping.runs import finish_run, new_run

    folder = new_run(home, plan, file.absolute())
    journal = Journal(folder / "journal.sqlite")
    states = {step.id: "cached" if step.id in adopted else "skipped" for step in plan.steps}
    for id, state in states.items():
        journal.note(id, state, reason=adopted.get(id, "not selected"))
    finish_run(journal, states)
    journal.close()
