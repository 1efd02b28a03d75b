"""`recipe reward`: compute every node of a reward graph for the rows of a file."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click

from posttrain.cli.compile import compile_request, print_diagnostics, recipe_file, settings_option
from posttrain.cli.invalid_usage import EXIT_ERRORS, InvalidUsage
from posttrain.cli.recipe_trust import RunTrust, require_trust, run_trust_options

if TYPE_CHECKING:
    from posttrain.compiler.rewards.graph import RewardGraph as Compiled
    from posttrain.runtime.rewards.engine.graph import Graph
    from posttrain.runtime.rewards.engine.score_file import ScoredRows

_MAX_CELL = 28


@click.command("reward")
@click.argument("path", metavar="PATH")
@click.argument("name", metavar="NAME")
@click.option(
    "--rows",
    "rows_file",
    required=True,
    metavar="FILE.jsonl",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Rows as JSON Lines, with the fields that the reward reads: `completion` and columns.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "jsonl"]),
    default="text",
    help="The output format: a table, or one JSON object per row.",
)
@settings_option
@run_trust_options
def command(
    path: str,
    name: str,
    rows_file: Path,
    form: str,
    settings: tuple[str, ...],
    profiles: tuple[str, ...],
    **trust: Unpack[RunTrust],
) -> None:
    """Score rows with the reward NAME of the recipe at PATH, and show the value of every node."""
    from posttrain.runtime.errors import StepError
    from posttrain.runtime.rewards.engine.graph import Graph
    from posttrain.runtime.rewards.engine.score_file import RowFileError, score_file
    from posttrain.runtime.store.user_files import find_user_file

    file = recipe_file(path)
    artifacts: list[str] = []
    compiled = _reward_graph(file, name, settings, profiles, artifacts)
    require_trust(path, file, artifacts, list(_actions(compiled)), trust)
    files = {role: find_user_file(file.parent, one) for role, one in compiled.files.items()}
    graph = Graph.from_plan(compiled.step_params(), files, compiled.endpoint_access())
    try:
        scored = score_file(rows_file, graph)
    except RowFileError as error:
        raise InvalidUsage(str(error)) from None
    except StepError as error:
        parts = (f"error: {error}", error.details, f"  {error.advice}" if error.advice else "")
        click.echo("\n".join(part for part in parts if part), err=True)
        raise click.exceptions.Exit(EXIT_ERRORS) from None
    if form == "jsonl":
        _print_lines(graph, scored)
    else:
        _print_table(graph, scored)
        click.echo(f"\n{len(scored.rows)} rows; range of the reward: {compiled.range}")


def _actions(compiled: "Compiled") -> Iterator[str]:
    """What the reward of someone else would do on this machine."""
    from posttrain.runtime.artifacts.foreign_code import network_action

    for path in sorted({one.path for one in compiled.files.values() if one.path.endswith(".py")}):
        yield f"the reward runs the Python code in {path}"
    for endpoint in compiled.endpoints.values():
        secrets = [endpoint.api_key.env] if endpoint.api_key else []
        yield network_action([endpoint.base_url or endpoint.provider], secrets)


def _reward_graph(
    file: Path, name: str, settings: Sequence[str], profiles: Sequence[str], artifacts: list[str]
) -> "Compiled":
    """The graph of the reward; its recipe extends `artifacts`, which are added. On errors, print them and
    exit."""
    from posttrain.compiler.pipeline import record_artifacts
    from posttrain.compiler.rewards.standalone_reward import compile_reward
    from posttrain.spec.suggestions import hint

    request = record_artifacts(compile_request(file, settings, profiles), artifacts)
    found = compile_reward(request, name)
    if found.diagnostics:
        print_diagnostics(found.diagnostics, file)
    if found.graph is not None:
        return found.graph
    if not found.diagnostics:
        help, _ = hint(name, found.names, what="rewards")
        raise InvalidUsage(f"{file} has no reward `{name}`; {help}")
    raise click.exceptions.Exit(EXIT_ERRORS)


def _print_lines(graph: "Graph", scored: "ScoredRows") -> None:
    scores = scored.scores
    for row in range(len(scored.rows)):
        line: dict[str, Any] = {
            "row": row,
            "reward": scores.values[graph.returns][row],
            "nodes": {name: column[row] for name, column in scores.values.items()},
        }
        reasons = {name: column[row] for name, column in scores.reasons.items() if column[row]}
        click.echo(json.dumps({**line, "reasons": reasons} if reasons else line, ensure_ascii=False))


def _print_table(graph: "Graph", scored: "ScoredRows") -> None:
    from posttrain.cli.text_tables import print_table
    from posttrain.runtime.rewards.engine.graph import mean_of_present

    scores = scored.scores
    shown = graph.named_nodes
    lines = [
        (str(number), *(_cell_text(scores.values[name][number]) for name in shown))
        for number in range(len(scored.rows))
    ]
    means = [
        mean_of_present([v for v in scores.values[name] if isinstance(v, int | float)]) for name in shown
    ]
    print_table(("row", *shown), [*lines, ("mean", *map(_cell_text, means))])
    reasons_shown = [
        f"row {number}, {name}: {reason}"
        for name, reasons in scores.reasons.items()
        for number, reason in enumerate(reasons)
        if reason and scores.values[name][number] is None
    ]
    for line in reasons_shown:
        click.echo(line)


def _cell_text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:g}"
    text = " ".join(str(value).split())
    return text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 3] + "..."
