"""Pairs the items of two evals: rows of the data that are equal in every column.

Rows are compared by a digest of their content, because the number of a row says nothing about the rows of
another run. Equal rows that occur several times are paired in order.
"""

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from posttrain.runtime.duckdb_files import open_for_duckdb
from posttrain.runtime.report.completion_rows import column_types
from posttrain.spec.sql_types import quote_identifier

# Columns that an eval adds to the rows of its data. Those with a colon, such as `node:NAME`, are added too.
_ADDED = frozenset({"model", "item", "completion", "tokens", "finish", "transcript", "likelihoods"})
# The columns of held-out rows that describe the row, not the model.
_HELD_OUT = ("rows", "tokens")
_SIDES = ("base", "other")
_MAX_NAME_LENGTH = 80


@dataclass(frozen=True, kw_only=True)
class PairedFiles:
    """The item files of two evals, as the tables `base` and `other` of a connection."""

    connection: Any
    # The items of the baseline with equal rows, and those of the other eval.
    pairs: Mapping[int, int]
    # Items without a counterpart.
    base_only: Sequence[int]
    other_only: Sequence[int]

    @property
    def all_equal(self) -> bool:
        return not (self.base_only or self.other_only)

    def columns(self, side: str) -> Collection[str]:
        return column_types(self.connection, side)

    @cached_property
    def other_pairs(self) -> Mapping[int, int]:
        return {new: old for old, new in self.pairs.items()}

    def align(self, side: str, values: Mapping[int, float]) -> dict[int, float]:
        """The values by the item of the baseline. Items without a counterpart get numbers of their own."""
        if side == "base":
            return dict(values)
        return {self.other_pairs.get(item, -1 - item): value for item, value in values.items()}

    def name(self, side: str, items: Sequence[int]) -> dict[int, str]:
        """The items with the start of their prompts."""
        if "prompt" not in column_types(self.connection, side):
            return {item: f"row {item}" for item in items}
        found = self.connection.execute(
            f"SELECT item, left(to_json(any_value(prompt))::VARCHAR, {_MAX_NAME_LENGTH}) FROM {side}"
            " WHERE list_contains($items, item) GROUP BY item",
            {"items": list(items)},
        ).fetchall()
        prompts = dict(found)
        return {
            item: f"row {item}: {prompts[item]}" if prompts.get(item) else f"row {item}" for item in items
        }


@contextmanager
def open_pair(base: Path, other: Path) -> Generator[PairedFiles]:
    """Open the item files of two evals. Raises OSError and duckdb.Error for files that cannot be read."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection, open_for_duckdb([base, other]) as opened:
        for side, path in zip(_SIDES, opened, strict=True):
            source = f"read_parquet('{path}', file_row_number = true)"
            connection.execute(f"CREATE VIEW {side} AS SELECT * FROM {source}")
            connection.execute(f"CREATE TABLE {side}_items AS {_items_query(connection, side)}")
        connection.execute(
            "CREATE TABLE pairs AS SELECT b.item AS base_item, o.item AS other_item"
            " FROM base_items AS b JOIN other_items AS o USING (digest, occurrence)"
        )
        pairs = dict(connection.execute("SELECT * FROM pairs ORDER BY base_item").fetchall())
        yield PairedFiles(
            connection=connection,
            pairs=pairs,
            base_only=_unpaired(connection, "base"),
            other_only=_unpaired(connection, "other"),
        )


def _items_query(connection: Any, side: str) -> str:
    """The items of a side: the digest of the row, and its number among equal rows."""
    digest = _row_digest(sorted(column_types(connection, side)))
    return (
        "SELECT item, digest, row_number() OVER (PARTITION BY digest ORDER BY item) AS occurrence FROM"
        f" (SELECT item, {digest} AS digest FROM {side}"
        " QUALIFY row_number() OVER (PARTITION BY item ORDER BY file_row_number) = 1)"
    )


def _row_digest(columns: Sequence[str]) -> str:
    """The digest of the data columns as an SQL expression."""
    if "model" in columns:
        named = [name for name in columns if name not in _ADDED | {"file_row_number"} and ":" not in name]
    else:  # held-out rows of a training
        named = [name for name in _HELD_OUT if name in columns]
    if not named:
        return "''"
    fields = ", ".join(f"{quote_identifier(name)} := {quote_identifier(name)}" for name in named)
    return f"sha256(to_json(struct_pack({fields}))::VARCHAR)"


def _unpaired(connection: Any, side: str) -> list[int]:
    query = f"SELECT item FROM {side}_items WHERE item NOT IN (SELECT {side}_item FROM pairs) ORDER BY item"
    return [item for (item,) in connection.execute(query).fetchall()]
