"""`recipe lock`: writes down what a recipe's names stand for, so that a run elsewhere means the same."""

from collections.abc import Sequence
from pathlib import Path

import click

from posttrain.cli.loading import ERRORS, compiled, lock_file, recipe_file, shown_name
from posttrain.cli.reporting import report
from posttrain.compiler.locking.wanted import Reason
from posttrain.spec.lockfile import Id, Lock


@click.command("lock")
@click.argument("path", default=".", metavar="PATH")
@click.option(
    "--check", is_flag=True, help="Write nothing; end with status 1 when the lock is not up to date."
)
@click.option("--upgrade", is_flag=True, help="Ask anew for what branches and tags stand for.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="How --check tells what is not up to date.",
)
def command(path: str, check: bool, upgrade: bool, form: str) -> None:
    """Write recipe.lock beside the recipe at PATH: the commits of models and datasets on the hub, the
    digests of files and images, the versions of the libraries; for the recipe and each of its profiles.

    What is locked stays as it is, until --upgrade. `recipe run --locked` goes by it.
    """
    file = recipe_file(path)
    needed = _needed(file)
    if check:
        _check(file, needed, form)
    else:
        _write(file, needed, upgrade)


def _needed(file: Path) -> dict[Id, str | None]:
    """What the recipe needs to be locked, as it stands and with each of its profiles."""
    from posttrain.compiler.diagnosis.findings import Findings
    from posttrain.compiler.locking.wanted import wanted
    from posttrain.compiler.reading.expand import profile_names
    from posttrain.compiler.reading.parse import parse

    outcome, request = compiled(file, (), (), tags_taken=True)
    if outcome.plan is None:
        report(outcome.diagnostics, file, "text")
        raise click.exceptions.Exit(ERRORS)
    found = wanted(outcome.plan, outcome.asked)
    tree = parse(request.source, Findings())
    assert tree is not None, "a recipe that compiles has a tree"
    for profile in profile_names(tree, request):
        varied, _ = compiled(file, (), (profile,), tags_taken=True)
        if varied.plan is None:
            click.echo(f"the profile `{profile}` has errors by itself: locked without it", err=True)
        else:
            found |= wanted(varied.plan, varied.asked)
    return found


def _check(file: Path, needed: dict[Id, str | None], form: str) -> None:
    from posttrain.compiler.locking.wanted import in_words, stale

    lock = _read(file)
    found = stale(needed, lock)
    where = shown_name(lock_file(file))
    if form == "json":
        click.echo(_document(found), nl=False)
    elif found:
        for reason in found:
            click.echo(f"{where}: {reason.reason}: {in_words(reason)}")
        click.echo(f"`recipe lock {shown_name(file)}` brings it up to date")
    else:
        click.echo(f"{where} is up to date ({len(needed)} entries)")
    if found:
        raise click.exceptions.Exit(ERRORS)


def _document(found: Sequence[Reason]) -> str:
    import json
    from dataclasses import asdict

    reasons = [asdict(reason) for reason in found]
    return json.dumps({"fresh": not found, "reasons": reasons}, ensure_ascii=False, indent=1) + "\n"


def _read(file: Path, anew: bool = False) -> Lock:
    """The recipe's lock; empty where there is none yet. With `anew`, what can be read of a damaged one."""
    from posttrain.spec.lockfile import BadLock, parse_lock, salvaged

    path = lock_file(file)
    if not path.exists():
        return Lock({})
    text = path.read_bytes().decode("utf-8", "replace")
    try:
        return parse_lock(text)
    except BadLock as error:
        fault = f"{shown_name(path)}:{error.line}: {error}"
    if not anew:
        raise click.ClickException(f"{fault}; `recipe lock {shown_name(file)}` writes it anew")
    click.echo(f"{fault}; it is written anew, from what it is clear about", err=True)
    return salvaged(text)


def _write(file: Path, needed: dict[Id, str | None], upgrade: bool) -> None:
    from posttrain.runtime.durable import write_text
    from posttrain.runtime.faults import StepFault
    from posttrain.runtime.locking.resolve import resolved
    from posttrain.spec.lockfile import to_text

    before = _read(file, anew=True)
    known = {} if upgrade else before.values
    try:
        values = resolved(needed, known, lambda what: click.echo(f"asking for {what}", err=True))
    except StepFault as fault:
        raise click.ClickException(f"{fault}\n  help: {fault.advice}") from None
    path, text = lock_file(file), to_text(values)
    if not path.exists() or path.read_bytes() != text.encode():
        write_text(path, text)
    click.echo(f"{shown_name(path)}: {_summary(before, values)}")


def _summary(before: Lock, values: dict[Id, str]) -> str:
    new = sum(id not in before.values for id in values)
    changed = sum(before.values.get(id, value) != value for id, value in values.items())
    gone = sum(id not in values for id in before.values)
    counts = {"new": new, "changed": changed, "gone": gone}
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{len(values)} entries" + (f" ({said})" if said else ", all as they were")
