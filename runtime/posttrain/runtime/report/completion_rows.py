"""Reads the completions of an eval from its product: failures and changes first, each with the completion of
an earlier model for the same item."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posttrain.runtime.duckdb_files import open_for_duckdb
from posttrain.runtime.report.events_reader import make_sample
from posttrain.runtime.report.redaction import redact
from posttrain.runtime.report.run_record import CompletionSamples, Sample
from posttrain.runtime.report.sample_correctness import CorrectnessRule
from posttrain.runtime.report.sample_shares import fair_shares
from posttrain.runtime.report.search_rows import search_rows
from posttrain.spec.sql_types import quote_identifier

_NODE, _REASON = "node:", "reason:"
_RATES = ("is unscored", "is truncated", "is timed out")
_ABOUT = ("model", "prompt", "completion", "item", "tokens", "finish", "transcript", "messages")
_OWN = ("file_row_number",)
# What queries add to the columns of a file, as names that no column of a dataset has.
_SHOWN = ("outcome", "was", "number", "model_number", "earlier_row")
_NEEDED = {"model", "item", "prompt", "completion"}
# Limits of a page: failures and changes; and other completions, evenly spaced.
_MAX_FAILURES, _MAX_OTHERS = 600, 60


@dataclass(frozen=True)
class CompletionFile:
    """The completions of an eval, with the node that decides whether one is right."""

    stage: str
    path: Path
    rule: CorrectnessRule | None
    # Whether a completion is the text of an episode.
    episodes: bool = False


def read_completions(
    file: CompletionFile, earlier: CompletionFile | None, secrets: tuple[str, ...]
) -> CompletionSamples | None:
    """The completions to show, and the number of all by outcome. None for a file without items.

    Without an earlier eval of the same items, the first of several models is the earlier one. Raises
    duckdb.Error for a damaged file.
    """
    import duckdb

    paths = [file.path] if earlier is None else [file.path, earlier.path]
    with duckdb.connect(config={"threads": 1}) as connection, open_for_duckdb(paths) as opened:
        for name, path in zip(("now", "earlier"), (opened[0], opened[-1]), strict=True):
            source = f"read_parquet('{path}', file_row_number = true)"
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {source}")
        types = column_types(connection, "now")
        if not types.keys() >= _NEEDED or not column_types(connection, "earlier").keys() >= _NEEDED:
            return None
        models = _models(connection, "now")
        compared = _compared_model(models, _models(connection, "earlier"), earlier is not None)
        rules = (file.rule, (earlier or file).rule)
        _rank(connection, rules, compared, same_stage=earlier is None)
        rows = _chosen_rows(connection)
        before = _earlier_rows(connection, [row[":earlier_row"] for row in rows])
        counts = connection.execute("SELECT outcome, count(*) FROM ranked GROUP BY ALL").fetchall()
        others = search_rows(connection, secrets)
        (changed,) = connection.execute("SELECT count(*) FROM ranked WHERE was <> outcome").fetchone() or (0,)
    samples = [
        completion_sample(row, file, before.get(row[":earlier_row"]), earlier, secrets) for row in rows
    ]
    return CompletionSamples(
        samples=tuple(samples),
        counts={str(outcome): count for outcome, count in counts if outcome is not None},
        changed=changed,
        total=sum(count for _, count in counts),
        search_rows=others,
    )


def column_types(connection: Any, table: str) -> dict[str, str]:
    """The columns of a table with their types."""
    return {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {table}").fetchall()}


def _models(connection: Any, table: str) -> list[str]:
    found = connection.execute(f"SELECT model FROM {table} GROUP BY model ORDER BY min(file_row_number)")
    return [str(model) for (model,) in found.fetchall()]


def _compared_model(models: Sequence[str], earlier: Sequence[str], is_other_stage: bool) -> str | None:
    """The model whose completions are the earlier ones; None if that is ambiguous."""
    if is_other_stage:
        return earlier[0] if len(earlier) == len(models) == 1 else None
    return models[0] if len(models) > 1 else None


def _rank(
    connection: Any, rules: Sequence[CorrectnessRule | None], compared: str | None, *, same_stage: bool
) -> None:
    """Create the table `ranked`: the outcome of each row and of the earlier one, and its place."""
    for table, name, rule in zip(("now", "earlier"), ("numbered", "numbered_earlier"), rules, strict=True):
        outcome = outcome_expression(rule, column_types(connection, table))
        connection.execute(
            f"CREATE TABLE {name} AS SELECT file_row_number AS row, model, item, {outcome} AS outcome,"
            " hash(to_json(prompt)) AS prompt, dense_rank() OVER (ORDER BY model) AS model_number,"
            f" row_number() OVER (PARTITION BY model, item ORDER BY file_row_number) AS number FROM {table}"
        )
    connection.execute(
        "CREATE TABLE ranked AS SELECT now.*, before.outcome AS was, before.row AS earlier_row, CASE"
        " WHEN now.outcome = 'wrong' AND was = 'right' THEN 0 WHEN now.outcome = 'wrong' THEN 1"
        " WHEN now.outcome = 'unscored' THEN 2 WHEN was <> now.outcome THEN 3 ELSE 4 END AS place"
        " FROM numbered AS now LEFT JOIN numbered_earlier AS before"
        " ON now.item = before.item AND now.number = before.number AND now.prompt = before.prompt"
        " AND before.model = $compared AND NOT ($same_stage AND now.model = before.model)",
        {"compared": compared, "same_stage": same_stage},
    )


def outcome_expression(rule: CorrectnessRule | None, types: Mapping[str, str]) -> str:
    """The outcome of a row as an SQL expression, as `sample_outcome` decides it."""
    name = f"{_NODE}{rule.node}" if rule else ""
    if rule is None or name not in types:
        return "NULL::VARCHAR"
    value = f"TRY_CAST({quote_identifier(name)} AS DOUBLE)"
    threshold = 0.5 if types[name] == "BOOLEAN" else rule.threshold
    return (
        f"CASE WHEN {value} IS NULL OR NOT isfinite({value}) THEN 'unscored'"
        f" WHEN {value} >= {threshold!r} THEN 'right' ELSE 'wrong' END"
    )


def _chosen_rows(connection: Any) -> list[dict[str, Any]]:
    """The rows to show in their order: failures and changes, then others, evenly spaced.

    Failures and changes share the limit, so that no kind of them hides the others.
    """
    kinds = connection.execute("SELECT place, count(*) FROM ranked WHERE place < 4 GROUP BY place").fetchall()
    shares = fair_shares(dict(kinds), _MAX_FAILURES)
    limits = [shares.get(place, 0) for place in range(4)]
    (others,) = connection.execute("SELECT count(*) FROM ranked WHERE place = 4").fetchone()
    connection.execute(
        "CREATE TABLE chosen AS"
        " (SELECT * FROM ranked WHERE place < 4"
        " QUALIFY row_number() OVER (PARTITION BY place ORDER BY model, item, number) <= $limits[place + 1])"
        " UNION ALL (SELECT * FROM ranked WHERE place = 4"
        " QUALIFY (row_number() OVER (ORDER BY row) - 1) % $distance = 0)",
        {
            "limits": limits,
            "distance": max(1, -(-others // _MAX_OTHERS)),
        },
    )
    return row_dicts(
        connection.execute(
            f"SELECT now.*, {shown_columns('chosen')} FROM chosen JOIN now"
            " ON now.file_row_number = chosen.row ORDER BY place, chosen.model, chosen.item, chosen.number"
        )
    )


def shown_columns(table: str) -> str:
    """The columns of a table of ranked rows that `completion_sample` reads."""
    return ", ".join(f'{table}.{name} AS ":{name}"' for name in _SHOWN)


def _earlier_rows(connection: Any, numbers: Sequence[int | None]) -> dict[int | None, dict[str, Any]]:
    wanted = [number for number in numbers if number is not None]
    found = connection.execute(
        "SELECT * FROM earlier WHERE list_contains($wanted, file_row_number)", {"wanted": wanted}
    )
    return {row["file_row_number"]: row for row in row_dicts(found)} if wanted else {}


def row_dicts(found: Any) -> list[dict[str, Any]]:
    """The rows of a result."""
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def completion_sample(
    row: Mapping[str, Any],
    file: CompletionFile,
    before: Mapping[str, Any] | None,
    earlier: CompletionFile | None,
    secrets: tuple[str, ...],
) -> Sample:
    """A row as a sample, with the earlier completion of its item.

    The row has the `shown_columns` of the query.
    """
    about = (*_ABOUT, *_OWN)
    texts = {name: value for name, value in row.items() if name not in about and ":" not in name}
    return replace(
        make_sample(redact(_event(row), secrets), file.episodes),
        outcome=row[":outcome"],
        item=row["item"],
        name="-".join(str(row[part]) for part in (":model_number", "item", ":number")),
        reference=redact({name: value for name, value in texts.items() if value is not None}, secrets),
        reasons=redact(_reasons(row), secrets),
        before=None
        if before is None
        else replace(
            make_sample(redact(_event(before), secrets), file.episodes),
            outcome=row[":was"],
            reasons=redact(_reasons(before), secrets),
            stage=earlier.stage if earlier is not None else file.stage,
        ),
    )


def _reasons(row: Mapping[str, Any]) -> dict[str, str]:
    found = {name: row.get(f"{_REASON}{name}") for name in _named_nodes(row)}
    return {name: reason for name, reason in found.items() if reason}


def _named_nodes(row: Mapping[str, Any]) -> list[str]:
    names = (name.removeprefix(_NODE) for name in row if name.startswith(_NODE))
    return [name for name in names if "." not in name and name not in _RATES]


def _event(row: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: row[f"{_NODE}{name}"] for name in _named_nodes(row)}
    return {
        **{name: row.get(name) for name in ("prompt", "completion", "model", "transcript")},
        "values": values,
    }
