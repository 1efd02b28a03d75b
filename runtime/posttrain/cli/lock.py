"""`recipe lock`: pin revisions and digests, so that a run on another machine has the same inputs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from posttrain.cli.compile import compile_file, display_path, local_recipe_file, lock_file
from posttrain.cli.diagnostics_output import report_diagnostics
from posttrain.cli.invalid_usage import EXIT_ERRORS
from posttrain.cli.recipe_paths import check_one_document, find_recipes, recipe_paths
from posttrain.spec.lockfile import EntryId, Lockfile, LockfileError, NewerLockfileError

if TYPE_CHECKING:
    from posttrain.compiler.lockfile.lock_entries import LockDifference
    from posttrain.runtime.lockfile.lock_update import LockUpdate


@click.command("lock")
@recipe_paths
@click.option("--check", is_flag=True, help="Write nothing; exit with status 1 if the lock is out of date.")
@click.option("--upgrade", is_flag=True, help="Update locked revisions: resolve branches and tags again.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="The output format of --check.",
)
def command(paths: tuple[str, ...], changed_files: bool, check: bool, upgrade: bool, form: str) -> None:
    """Write recipe.lock next to each recipe at PATH. It pins the commits of models and datasets on the hub,
    the digests of files and images, and the versions of libraries, for the recipe and all its profiles.

    Existing entries do not change without --upgrade. `recipe run --locked` uses the lock file. With
    --changed-files, recipes without a lock file are skipped.
    """
    files = find_recipes(paths, changed_files, local_recipe_file)
    if changed_files:
        files = [file for file in files if lock_file(file).is_file()]
    check_one_document(files, form)
    good = [_lock(file, check, upgrade, form) for file in files]
    if not all(good):
        raise click.exceptions.Exit(EXIT_ERRORS)


def _lock(file: Path, check: bool, upgrade: bool, form: str) -> bool:
    """Write or check the lock of a recipe. Return whether there is nothing to correct."""
    needed = _required_entries(file)
    if needed is None:
        return False
    if check:
        return _check_lock(file, needed, form)
    _write_lock(file, needed, upgrade)
    return True


def _required_entries(file: Path) -> dict[EntryId, str | None] | None:
    """The entries that the recipe and each of its profiles need; None if the recipe has errors."""
    from posttrain.compiler.diagnosis.diagnostics import Diagnostics
    from posttrain.compiler.lockfile.lock_entries import required_entries
    from posttrain.compiler.parsing.expand import profile_names
    from posttrain.compiler.parsing.parse import parse

    outcome, request = compile_file(file, (), (), allow_image_tags=True)
    if outcome.plan is None:
        report_diagnostics(outcome.diagnostics, file, "text")
        return None
    found = required_entries(outcome.plan, outcome.hub_references)
    tree = parse(request.source, Diagnostics())
    assert tree is not None, "a recipe that compiles has a tree"
    for profile in profile_names(tree, request):
        varied, _ = compile_file(file, (), (profile,), allow_image_tags=True)
        if varied.plan is None:
            click.echo(f"the profile `{profile}` does not compile: its entries are not locked", err=True)
        else:
            found |= required_entries(varied.plan, varied.hub_references)
    return found


def _check_lock(file: Path, needed: dict[EntryId, str | None], form: str) -> bool:
    """Print the differences of a lock, and return whether it is up to date."""
    from posttrain.compiler.lockfile.lock_entries import describe_difference, lock_differences

    lock = _read_lock(file)
    found = lock_differences(needed, lock)
    where = display_path(lock_file(file))
    if form == "json":
        click.echo(_json_report(found), nl=False)
    elif found:
        for reason in found:
            click.echo(f"{where}: {reason.reason}: {describe_difference(reason)}")
        click.echo(f"update it with `recipe lock {display_path(file)}`")
    else:
        click.echo(f"{where} is up to date ({len(needed)} entries)")
    return not found


def _json_report(found: "Sequence[LockDifference]") -> str:
    import json
    from dataclasses import asdict

    reasons = [asdict(reason) for reason in found]
    return json.dumps({"fresh": not found, "reasons": reasons}, ensure_ascii=False, indent=1) + "\n"


def _read_lock(file: Path) -> Lockfile:
    from posttrain.runtime.lockfile.lock_update import read_lock

    try:
        return read_lock(lock_file(file))
    except LockfileError as error:
        newer = isinstance(error, NewerLockfileError)
        advice = "upgrade posttrain" if newer else f"rewrite it with `recipe lock {display_path(file)}`"
        raise click.ClickException(f"{_place(file, error)}; {advice}") from None


def _write_lock(file: Path, needed: dict[EntryId, str | None], upgrade: bool) -> None:
    from posttrain.runtime.errors import StepError
    from posttrain.runtime.lockfile.lock_update import salvage_lock_file, update_lock

    path = lock_file(file)
    before, damage = salvage_lock_file(path)
    if isinstance(damage, NewerLockfileError):
        raise click.ClickException(f"{_place(file, damage)}; upgrade posttrain, or delete the file")
    if damage is not None:
        click.echo(f"{_place(file, damage)}; keeping the readable entries", err=True)

    def print_query(what: str) -> None:
        click.echo(f"resolving {what}", err=True)

    try:
        update = update_lock(path, before, needed, print_query, upgrade=upgrade)
    except StepError as error:
        raise click.ClickException(f"{error}\n  help: {error.advice}") from None
    except LockfileError as error:
        raise click.ClickException(f"a resolved entry is not valid: {error}") from None
    except OSError as error:
        raise click.ClickException(f"{display_path(path)} cannot be written: {error.strerror}") from None
    click.echo(f"{display_path(path)}: {_summary(update)}")


def _place(file: Path, error: LockfileError) -> str:
    return f"{display_path(lock_file(file))}:{error.line}: {error}"


def _summary(update: "LockUpdate") -> str:
    counts = {"new": update.added, "changed": update.changed, "removed": update.removed}
    text = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{len(update.after)} entries" + (f" ({text})" if text else ", unchanged")
