"""Examines the rows of a training stage in batches, and merges what was found in them.

The error is that of an examination of all rows at once: of the first check that fails for any row, with the
number of its rows in all batches. A batch is not examined further once a check has failed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.training.row_statistics import (
    RowStatistics,
    add_statistics,
    row_statistics,
    turn_roles,
)
from posttrain.runtime.training.validate_rows import bad_rows_error, check_contents, row_checks
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import Method

Row = dict[str, Any]
# The places of the checks that follow those of `row_checks`.
CONTENTS, TEMPLATE_VALUES, CONVERSATIONS = 1000.0, 1001.0, 1002.0


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The first check that failed in a batch."""

    # The place of the check in the order of all checks.
    place: float
    message: str
    advice: str
    # Of a check that counts: its bad rows, and the number of the first of them.
    bad: int = 0
    first: int = 0
    roles_of: str | None = None


@dataclass(kw_only=True)
class BatchFacts:
    """What was found in a batch of rows."""

    rows: int
    finding: Finding | None = None
    roles: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    # Of the rows as stored, and of those that the trainer gets.
    stored: RowStatistics = field(default_factory=RowStatistics)
    trained: RowStatistics = field(default_factory=RowStatistics)
    # Whether a row has tools, or arguments of the chat template.
    rendered: Mapping[str, bool] = field(default_factory=dict[str, bool])
    # The first rows with parts that a chat template can leave out.
    parts: Mapping[str, int] = field(default_factory=dict[str, int])
    # What a method asks about its rows: whether any row has it.
    flags: Mapping[str, bool] = field(default_factory=dict[str, bool])
    # The error of the first row that the method rejects later than all others do.
    late_error: tuple[str, str] | None = None


def examine_batch(
    rows: Sequence[Row], columns: Columns, method: Method, *, template: bool, first: int
) -> BatchFacts:
    """Run the checks of `row_checks` on a batch whose first row has the number `first`."""
    talks = [name for name, type in columns.items() if type == "messages"]
    facts = BatchFacts(rows=len(rows))
    place = 0.0
    try:
        for check in row_checks(columns, method, rows, template=template, first=first):
            place += 1
            bad = [number for number, is_bad in enumerate(check.bad, first) if is_bad]
            if bad:
                facts.finding = Finding(
                    place=place,
                    message=check.what,
                    advice=check.advice,
                    bad=len(bad),
                    first=bad[0],
                    roles_of=check.roles_of,
                )
                facts.roles = {name: sorted(turn_roles(row[name] for row in rows)) for name in talks}
                return facts
    except StepError as error:  # between two checks
        facts.finding = Finding(place=place + 0.5, message=str(error), advice=error.advice)
        return facts
    facts.stored = row_statistics({name: [row[name] for row in rows] for name in columns})
    facts.roles = facts.stored.roles
    return facts


def raise_findings(batches: Sequence[BatchFacts], columns: Columns) -> None:
    """Raise the error that an examination of all rows at once would raise."""
    found = [batch.finding for batch in batches if batch.finding is not None]
    first = min((one.place for one in found), default=CONVERSATIONS + 1)
    if first > CONTENTS:
        check_contents(columns, add_statistics(batch.stored for batch in batches))
    same = [one for one in found if one.place == first]
    if not same:
        return
    if not same[0].bad:
        raise StepError(same[0].message, same[0].advice)
    roles = {role for batch in batches for role in batch.roles.get(same[0].roles_of or "", ())}
    bad, total = sum(one.bad for one in same), sum(batch.rows for batch in batches)
    raise bad_rows_error(same[0].message, same[0].advice, bad, total, same[0].first, roles)
