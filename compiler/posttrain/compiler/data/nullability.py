"""Empty places in columns, followed through data steps: what is known of them after each.

Rows are not at hand here. A step that may drop rows leaves it open whether those with an empty place are
among them; a step that may fill or test a column ends what is known of it.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posttrain.compiler.data.table_schema import TableSchema
from posttrain.spec.extension import NullStats

NullCounts = Mapping[str, NullStats]
# Steps after which each row is still there.
_ROW_PRESERVING = ("derive", "select", "rename", "sort", "mix", "split")


def nulls_after_step(name: str, value: Any, before: TableSchema, after: TableSchema) -> TableSchema:
    """What comes of a relational step, with what is known of the rows that leave a column empty."""
    gaps = _TRANSFORMS.get(name, _unchanged)(value, before.null_counts)
    keeps = name in _ROW_PRESERVING or (name == "join" and value.get("kind") == "left")
    return replace(
        after,
        null_counts={column: gap for column, gap in gaps.items() if column in after.columns},
        all_rows_kept=before.all_rows_kept and keeps,
    )


def has_certain_nulls(table: TableSchema, part: str | None, gap: NullStats) -> bool:
    """Whether a row of the gap is sure to be among the rows of a part: more than the other parts can hold."""
    if not table.all_rows_kept:
        return False
    if part is None:
        return True
    others = {name: rows for name, rows in table.parts.items() if name != part}
    known = None not in others.values() and table.estimated_parts.isdisjoint(others)
    return known and gap.null_rows > sum(rows or 0 for rows in others.values())


def _unchanged(value: Any, gaps: NullCounts) -> NullCounts:
    return gaps


def _where(condition: Any, gaps: NullCounts) -> NullCounts:
    """A condition that names a column may be there to drop the rows without it."""
    return {
        name: gap for name, gap in gaps.items() if not re.search(rf"(?i)\b{re.escape(name)}\b", condition)
    }


def _derive(made: Mapping[str, Any], gaps: NullCounts) -> NullCounts:
    """A column made anew may be filled; one that is another's copy is as empty as that."""
    unchanged = {name: gap for name, gap in gaps.items() if name not in made}
    copied = {name: _copied_column(expression) for name, expression in made.items()}
    return {**unchanged, **{name: gaps[column] for name, column in copied.items() if column in gaps}}


def _copied_column(expression: Any) -> str:
    return str(expression).strip().strip('"')


def _rename(names: Mapping[str, str], gaps: NullCounts) -> NullCounts:
    return {names.get(name, name): gap for name, gap in gaps.items()}


_TRANSFORMS = {"where": _where, "derive": _derive, "rename": _rename}
