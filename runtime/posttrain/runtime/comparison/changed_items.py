"""Finds the items whose outcome differs between two evals: right in one run, wrong in the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.comparison.compared_run import ComparedRun
from posttrain.runtime.comparison.paired_items import PairedFiles
from posttrain.runtime.report.completion_rows import (
    CompletionFile,
    column_types,
    completion_sample,
    outcome_expression,
    row_dicts,
    shown_columns,
)
from posttrain.runtime.report.number_format import mapping_or_empty
from posttrain.runtime.report.run_record import Sample, StepRecord
from posttrain.runtime.report.sample_correctness import correctness_rules

# The changed completions of a stage that are read; the page shows fewer if many stages have some.
MAX_CHANGED = 400
_NEEDED = {"model", "item", "prompt", "completion"}


@dataclass(frozen=True, kw_only=True)
class ChangedItems:
    """The completions of paired items with another outcome: regressions first."""

    # Of the other run, each with that of the baseline.
    samples: tuple[Sample, ...]
    # The numbers of completions, by the outcome in the baseline and that in the other run.
    counts: Mapping[tuple[str, str], int]

    @property
    def total(self) -> int:
        return sum(count for (was, now), count in self.counts.items() if was != now)


def find_changed_items(
    files: PairedFiles, base: ComparedRun, other: ComparedRun, old: StepRecord, new: StepRecord
) -> ChangedItems | None:
    """The changed items; None for evals without completions, or without a metric that decides on them."""
    types = [column_types(files.connection, side) for side in ("base", "other")]
    rules = correctness_rules(base.record)[old.id], correctness_rules(other.record)[new.id]
    if any(not kinds.keys() >= _NEEDED for kinds in types) or None in rules:
        return None
    for side, rule, kinds in zip(("base", "other"), rules, types, strict=True):
        files.connection.execute(
            f"CREATE TABLE {side}_outcomes AS SELECT file_row_number AS row, model, item,"
            f" {outcome_expression(rule, kinds)} AS outcome,"
            " dense_rank() OVER (ORDER BY model) AS model_number,"
            f" row_number() OVER (PARTITION BY model, item ORDER BY file_row_number) AS number FROM {side}"
        )
    _join(files.connection)
    counts = files.connection.execute("SELECT was, outcome, count(*) FROM matched GROUP BY ALL").fetchall()
    sides = [
        CompletionFile(
            stage=record.id, path=path, rule=rule, episodes=bool(_params(record).get("environment"))
        )
        for record, rule in ((old, rules[0]), (new, rules[1]))
        if (path := record.folder) is not None
    ]
    return ChangedItems(
        samples=tuple(_samples(files.connection, sides[0], sides[1], (*base.secrets, *other.secrets))),
        counts={(was, now): count for was, now, count in counts},
    )


def _params(record: StepRecord) -> Mapping[str, Any]:
    return mapping_or_empty(record.step.params)


def _join(connection: Any) -> None:
    """Create the table `matched`: each completion of a paired item with that of the baseline.

    Several models of an eval are matched by name. A single one can have another name in each run.
    """
    connection.execute(
        "CREATE TABLE matched AS SELECT o.*, b.outcome AS was, b.row AS earlier_row,"
        " CASE WHEN was = 'right' AND o.outcome = 'wrong' THEN 0 WHEN was = 'right' THEN 1"
        " WHEN was = 'wrong' AND o.outcome = 'unscored' THEN 2 WHEN o.outcome = 'right' THEN 3 ELSE 4 END"
        " AS rank FROM other_outcomes AS o JOIN pairs ON o.item = pairs.other_item"
        " JOIN base_outcomes AS b ON b.item = pairs.base_item AND b.number = o.number"
        " AND (b.model = o.model OR ((SELECT max(model_number) FROM base_outcomes) = 1"
        " AND (SELECT max(model_number) FROM other_outcomes) = 1))"
        " WHERE was IS NOT NULL AND o.outcome IS NOT NULL"
    )


def _samples(
    connection: Any, base: CompletionFile, other: CompletionFile, secrets: tuple[str, ...]
) -> list[Sample]:
    rows = row_dicts(
        connection.execute(
            f"SELECT other.*, {shown_columns('m')}"
            " FROM matched AS m JOIN other ON other.file_row_number = m.row WHERE m.was <> m.outcome"
            " ORDER BY m.rank, m.model_number, m.item, m.number LIMIT $most",
            {"most": MAX_CHANGED},
        )
    )
    earlier = row_dicts(
        connection.execute(
            "SELECT * FROM base WHERE list_contains($rows, file_row_number)",
            {"rows": [row[":earlier_row"] for row in rows]},
        )
    )
    by_row = {row["file_row_number"]: row for row in earlier}
    return [completion_sample(row, other, by_row[row[":earlier_row"]], base, secrets) for row in rows]
