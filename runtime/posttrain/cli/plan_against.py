"""`recipe plan --against`: compare the recipe in the working tree with a revision of its git repository."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from posttrain.cli.compile import compile_file
from posttrain.cli.diagnostics_output import report_diagnostics
from posttrain.cli.diff_report import DiffReport, to_json, to_text
from posttrain.cli.invalid_usage import EXIT_ERRORS, InvalidUsage
from posttrain.cli.revision_comparison import RevisionComparison
from posttrain.spec.diagnostic import has_errors

if TYPE_CHECKING:
    from posttrain.compiler.pipeline import CompileResult
    from posttrain.compiler.text.compile_request import CompileRequest
    from posttrain.runtime.revisions.revision_tree import RevisionTree
    from posttrain.runtime.store.home import Home
    from posttrain.spec.plan import Plan

COMPARISON_FORMATS = ("text", "json", "markdown")


def print_comparison(
    file: Path,
    revision: str,
    settings: Sequence[str],
    profiles: Sequence[str],
    locked: bool,
    home: "Home",
    shown: str,
    limit: int,
) -> DiffReport:
    """Print what changed since a revision, and return the comparison. Exit after errors of the recipe, also
    in profiles that are not applied."""
    if shown not in COMPARISON_FORMATS:
        raise InvalidUsage(f"--against prints {', '.join(COMPARISON_FORMATS)}; got --format {shown}")
    outcome, request = compile_file(file, settings, profiles, locked, check_profiles=True)
    report_diagnostics(outcome.diagnostics, file, "text", err=True, limit=limit)
    if outcome.plan is None:
        if shown == "markdown":
            from posttrain.cli.plan_markdown import errors_markdown

            click.echo(errors_markdown(file, outcome.diagnostics), nl=False)
        raise click.exceptions.Exit(EXIT_ERRORS)
    found = _compare(file, revision, settings, profiles, locked, home, outcome.plan, request)
    if shown == "markdown":
        from posttrain.cli.plan_markdown import comparison_markdown

        click.echo(comparison_markdown(file, found), nl=False)
    else:
        for note in filter(None, (found.absence, *found.notes)):
            click.echo(f"note: {note}", err=True)
        click.echo(to_json(found.report) if shown == "json" else to_text(found.report), nl=False)
    if has_errors(outcome.diagnostics):
        raise click.exceptions.Exit(EXIT_ERRORS)
    return found.report


def _compare(
    file: Path,
    revision: str,
    settings: Sequence[str],
    profiles: Sequence[str],
    locked: bool,
    home: "Home",
    plan: "Plan",
    request: "CompileRequest",
) -> RevisionComparison:
    from posttrain.compiler.diff.plan_diff import compare_plans
    from posttrain.runtime.execution.dry_run import forecast_plan
    from posttrain.runtime.revisions.git_repository import RevisionError
    from posttrain.runtime.revisions.revision_tree import recipe_at_revision

    cached = {id for id, one in forecast_plan(plan, home).items() if one.state == "cached"}
    try:
        with recipe_at_revision(file, revision) as tree:
            old, old_request, absence = _compile_revision(tree, revision, settings, profiles, locked)
            compared = compare_plans(old or plan.model_copy(update={"steps": ()}), plan)
            report = DiffReport.from_comparison(compared, old_request, request if old else None, cached)
    except RevisionError as error:
        raise click.ClickException(str(error)) from None
    return RevisionComparison(
        plan=plan,
        revision=revision,
        commit=tree.commit,
        absence=absence,
        notes=tuple(_notes(tree)),
        report=report,
    )


def _notes(tree: "RevisionTree") -> list[str]:
    found = [f"at the revision, the recipe was {tree.renamed_from}"] if tree.renamed_from else []
    if tree.dirty:
        found.append("the comparison includes changes of the working tree that are not committed")
    return found


def _compile_revision(
    tree: "RevisionTree",
    revision: str,
    settings: Sequence[str],
    profiles: Sequence[str],
    locked: bool,
) -> "tuple[Plan | None, CompileRequest | None, str]":
    """The plan at the revision with its request, or why there is none."""
    if tree.recipe is None:
        return None, None, f"{revision} has no such recipe"
    if locked and not tree.recipe.with_suffix(".lock").is_file():
        return None, None, f"{revision} has no lock file of this recipe"
    outcome, request = compile_file(tree.recipe, settings, profiles, locked)
    _check_available(outcome, tree, revision)
    if outcome.plan is None:
        errors = [one for one in outcome.diagnostics if one.severity == "error"]
        return None, None, f"the recipe at {revision} has errors: {errors[0].message}"
    return outcome.plan, request, ""


def _check_available(outcome: "CompileResult", tree: "RevisionTree", revision: str) -> None:
    """Refuse a comparison with files that have no content: it would report them as changed."""
    steps = outcome.plan.steps if outcome.plan is not None else ()
    read = {file.path for step in steps for file in step.files.values()}
    for path, why in tree.unavailable.items():
        if outcome.plan is None or any(name == path or name.startswith(f"{path}/") for name in read):
            raise click.ClickException(f"at {revision}, {path} is {why}")
