"""Diagnostics in the form that was asked for: text for people, the others for programs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from posttrain.cli.loading import ERRORS, compiled, show, shown_name
from posttrain.compiler.pipeline import Outcome
from posttrain.spec.diagnostic import Diagnostic, has_errors

FORMS = ("text", "json", "github", "sarif")


def diagnostics_option(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        name,
        "form",
        type=click.Choice(FORMS),
        default="text",
        help="How diagnostics are written: for people, or for programs and code hosts.",
    )


def report(diagnostics: Sequence[Diagnostic], path: Path, form: str, err: bool = False) -> None:
    """Print diagnostics: text to standard error; other forms as one document, to standard output."""
    if form != "text":
        click.echo(_document(diagnostics, path, form), nl=False, err=err)
    elif diagnostics:
        show(diagnostics, path)


def _document(diagnostics: Sequence[Diagnostic], path: Path, form: str) -> str:
    spans = [span for found in diagnostics for span in _spans(found)]
    names = {span.file: shown_name(path.parent / span.file) for span in spans if span.file[:2] != "--"}
    if form == "json":
        from posttrain.compiler.render.json import render_json

        return render_json(diagnostics, names)
    from posttrain.compiler.codes import all_codes

    codes = {code.id: code for code in all_codes()}
    if form == "github":
        from posttrain.compiler.render.github import render_github

        return render_github(diagnostics, names, codes, shown_name(path))
    from posttrain.compiler.render.sarif import render_sarif

    return render_sarif(diagnostics, names, codes, shown_name(path))


def _spans(found: Diagnostic) -> list[Any]:
    edits = [found.edit.span] if found.edit else []
    return [found.span, *(label.span for label in found.labels), *edits]


def must_compile(
    path: Path, settings: Sequence[str], profiles: Sequence[str], form: str = "text", locked: bool = False
) -> Outcome:
    """The outcome of a recipe that has a plan; otherwise what is wrong is printed and the command ends."""
    outcome, _ = compiled(path, settings, profiles, locked)
    report(outcome.diagnostics, path, form, err=True)
    if outcome.plan is None:
        assert has_errors(outcome.diagnostics), "no plan, and no error that says why"
        raise click.exceptions.Exit(ERRORS)
    return outcome
