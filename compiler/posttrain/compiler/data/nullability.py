"""Tracks null and empty values in columns through the data steps.

The compiler does not have all rows here. After a step that may drop rows, it is unknown whether the rows with
nulls remain. After a step that may fill or test a column, the null count of that column is dropped.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posttrain.compiler.data.table_schema import TableSchema
from posttrain.spec.extension import NullStats

NullCounts = Mapping[str, NullStats]
# Steps that keep every row.
_ROW_PRESERVING = ("derive", "select", "rename", "sort", "mix", "split")


def nulls_after_step(name: str, value: Any, before: TableSchema, after: TableSchema) -> TableSchema:
    """Return the result of a relational step with the null counts of its columns."""
    gaps = _TRANSFORMS.get(name, _unchanged)(value, before.null_counts)
    keeps = name in _ROW_PRESERVING or (name == "join" and value.get("kind") == "left")
    return replace(
        after,
        null_counts={column: gap for column, gap in gaps.items() if column in after.columns},
        all_rows_kept=before.all_rows_kept and keeps,
    )


def has_certain_nulls(table: TableSchema, part: str | None, gap: NullStats) -> bool:
    """Return whether a part certainly has a row with a null: the other parts cannot hold all such rows."""
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
    """Drop the null counts of columns that the condition names, because it may drop those rows."""
    return {
        name: gap for name, gap in gaps.items() if not re.search(rf"(?i)\b{re.escape(name)}\b", condition)
    }


def _derive(derived: Mapping[str, Any], gaps: NullCounts) -> NullCounts:
    """Drop the null counts of derived columns, except for plain copies of another column."""
    unchanged = {name: gap for name, gap in gaps.items() if name not in derived}
    copied = {name: _copied_column(expression) for name, expression in derived.items()}
    return {**unchanged, **{name: gaps[column] for name, column in copied.items() if column in gaps}}


def _copied_column(expression: Any) -> str:
    return str(expression).strip().strip('"')


def _rename(names: Mapping[str, str], gaps: NullCounts) -> NullCounts:
    return {names.get(name, name): gap for name, gap in gaps.items()}


_TRANSFORMS = {"where": _where, "derive": _derive, "rename": _rename}
