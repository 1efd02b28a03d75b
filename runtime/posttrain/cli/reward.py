"""`recipe reward`: compute every node of a reward graph for the rows of a file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from posttrain.cli.compile import (
    EXIT_ERRORS,
    InvalidUsage,
    compile_request,
    print_diagnostics,
    recipe_file,
    settings_option,
)
from posttrain.compiler.rewards.graph import RewardGraph as Compiled
from posttrain.runtime.rewards.engine.graph import Graph, Scores, mean_of_present

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
def command(
    path: str,
    name: str,
    rows_file: Path,
    form: str,
    settings: tuple[str, ...],
    profiles: tuple[str, ...],
) -> None:
    """Score rows with the reward NAME of the recipe at PATH, and show the value of every node."""
    from posttrain.runtime.errors import StepError

    file = recipe_file(path)
    graph = _reward_graph(file, name, settings, profiles)
    rows = _read_rows(rows_file, graph)
    ready = _runtime_graph(graph, file.parent)
    columns = {read: [row[read] for row in rows] for read in graph.reads}
    try:
        scores = ready.evaluate(columns, _prompt_groups(rows))
    except StepError as error:
        click.echo(f"error: {error}" + (f"\n  {error.advice}" if error.advice else ""), err=True)
        raise click.exceptions.Exit(EXIT_ERRORS) from None
    if form == "jsonl":
        _print_lines(ready, scores, len(rows))
    else:
        _print_table(ready, scores, rows)
        click.echo(f"\n{len(rows)} rows; range of the reward: {graph.range}")


def _reward_graph(file: Path, name: str, settings: Sequence[str], profiles: Sequence[str]) -> Compiled:
    """The graph of the reward. On errors, print them and exit."""
    from posttrain.compiler.rewards.standalone_reward import compile_reward
    from posttrain.spec.suggestions import hint

    found = compile_reward(compile_request(file, settings, profiles), name)
    if found.diagnostics:
        print_diagnostics(found.diagnostics, file)
    if found.graph is not None:
        return found.graph
    if not found.diagnostics:
        help, _ = hint(name, found.names, what="rewards")
        raise InvalidUsage(f"{file} has no reward `{name}`; {help}")
    raise click.exceptions.Exit(EXIT_ERRORS)


def _runtime_graph(graph: Compiled, folder: Path) -> Graph:
    files = {role: folder / file.path for role, file in graph.files.items()}
    return Graph.from_plan(graph.step_params(), files, graph.endpoint_access())


def _read_rows(path: Path, graph: Compiled) -> list[dict[str, Any]]:
    """Read the rows of a file, and check that each has every column that the graph reads."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        if line.strip():
            rows.append(_parse_row(f"{path}:{number}", line, graph))
    if not rows:
        raise InvalidUsage(f"{path} has no rows")
    return rows


def _parse_row(place: str, line: str, graph: Compiled) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InvalidUsage(f"{place} is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise InvalidUsage(f"{place} is not a JSON object")
    for name, type in graph.reads.items():
        if name not in row:
            raise InvalidUsage(f"{place} has no `{name}`, which the reward reads")
        if not _matches_type(row[name], type):
            raise InvalidUsage(f"{place}: `{name}` must be {type}; got {json.dumps(row[name])[:60]}")
    return row


def _matches_type(value: Any, type: str) -> bool:
    match type:
        case "text":
            return value is None or isinstance(value, str)
        case "boolean":
            return value is None or isinstance(value, bool)
        case "integer" | "number":
            kinds = int if type == "integer" else int | float
            return value is None or (isinstance(value, kinds) and not isinstance(value, bool))
        case _:
            return True


def _prompt_groups(rows: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """The group number of each row: equal for equal prompts. None if a row has no `prompt`."""
    if not all("prompt" in row for row in rows):
        return None
    numbers: dict[str, int] = {}
    return [numbers.setdefault(json.dumps(row["prompt"]), len(numbers)) for row in rows]


def _print_lines(graph: Graph, scores: Scores, count: int) -> None:
    for row in range(count):
        line: dict[str, Any] = {
            "row": row,
            "reward": scores.values[graph.returns][row],
            "nodes": {name: column[row] for name, column in scores.values.items()},
        }
        reasons = {name: column[row] for name, column in scores.reasons.items() if column[row]}
        click.echo(json.dumps({**line, "reasons": reasons} if reasons else line, ensure_ascii=False))


def _print_table(graph: Graph, scores: Scores, rows: Sequence[Mapping[str, Any]]) -> None:
    from posttrain.cli.text_tables import print_table

    shown = graph.named_nodes
    lines = [
        (str(number), *(_cell_text(scores.values[name][number]) for name in shown))
        for number in range(len(rows))
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
