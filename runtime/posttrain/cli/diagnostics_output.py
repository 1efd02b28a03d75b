"""Prints diagnostics in the requested format."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.compile import MAX_DIAGNOSTICS, compile_file, display_path, print_diagnostics
from posttrain.cli.invalid_usage import EXIT_ERRORS
from posttrain.spec.diagnostic import Diagnostic, has_errors

if TYPE_CHECKING:
    from posttrain.compiler.pipeline import CompileResult

FORMATS = ("text", "json", "github", "sarif")


def diagnostics_option(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        name,
        "form",
        type=click.Choice(FORMATS),
        default="text",
        help="The format of diagnostics.",
    )


def limit_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--max-diagnostics, for commands whose purpose is to check a recipe."""
    return click.option(
        "--max-diagnostics",
        "limit",
        type=click.IntRange(min=0),
        default=MAX_DIAGNOSTICS,
        show_default=True,
        metavar="N",
        help="Print at most N diagnostics as text, errors first; 0 prints all. Other formats contain all.",
    )(command)


def report_diagnostics(
    diagnostics: Sequence[Diagnostic],
    path: Path,
    form: str,
    err: bool = False,
    limit: int = MAX_DIAGNOSTICS,
) -> None:
    """Print diagnostics: text to standard error, other formats as one document to standard output."""
    if form != "text":
        click.echo(_render_document(diagnostics, path, form), nl=False, err=err)
    elif diagnostics:
        print_diagnostics(diagnostics, path, limit)


def _render_document(diagnostics: Sequence[Diagnostic], path: Path, form: str) -> str:
    spans = [span for found in diagnostics for span in _spans(found)]
    names = {span.file: display_path(path.parent / span.file) for span in spans if span.file[:2] != "--"}
    if form == "json":
        from posttrain.compiler.render.json_diagnostics import render_json

        return render_json(diagnostics, names)
    from posttrain.compiler.diagnostic_codes import all_codes

    codes = {code.id: code for code in all_codes()}
    if form == "github":
        from posttrain.compiler.render.github_annotations import render_github

        return render_github(diagnostics, names, codes, display_path(path))
    from posttrain.compiler.render.sarif import render_sarif

    return render_sarif(diagnostics, names, codes, display_path(path))


def _spans(found: Diagnostic) -> list[Any]:
    edits = [found.edit.span] if found.edit else []
    return [found.span, *(label.span for label in found.labels), *edits]


def compile_or_exit(
    path: Path,
    settings: Sequence[str],
    profiles: Sequence[str],
    form: str = "text",
    locked: bool = False,
    check_profiles: bool = False,
    limit: int = MAX_DIAGNOSTICS,
) -> "CompileResult":
    """Compile a recipe. If it has errors, print its diagnostics and exit. Errors of the profiles that only
    `check_profiles` compiles do not exit."""
    outcome, _ = compile_file(path, settings, profiles, locked, check_profiles=check_profiles)
    report_diagnostics(outcome.diagnostics, path, form, err=True, limit=limit)
    if outcome.plan is None:
        assert has_errors(outcome.diagnostics), "a compilation without a plan reports an error"
        raise click.exceptions.Exit(EXIT_ERRORS)
    return outcome
