"""Relational data steps, each to one SQL query over the table `rows`.

Rows carry `__row`, their place, and after a split `__part`. Queries keep both, so that order never
depends on how they were carried out.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from posttrain.compiler.data.drawing import join, mix, sample, split
from posttrain.compiler.data.sql import quoted
from posttrain.compiler.data.tables import (
    HIDDEN,
    Lowered,
    Others,
    StepError,
    Table,
    bound,
    columns_in,
    expression_in,
    mapping_in,
    need_column,
    operation,
)


def where(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Keep the rows for which the expression is true."""
    condition = expression_in(value)
    query = f"SELECT * FROM rows WHERE ({condition}\n)"
    bound(query, table)
    type = bound(f"SELECT ({condition}\n) AS x FROM rows", table)["x"]
    if type not in ("boolean", "any"):
        raise StepError("sql", f"`where` takes a condition; this is {type}", "such as length(prompt) < 500")
    return operation(query), replace(table, exact=False)


def derive(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Add or replace columns, all computed from the columns before the step."""
    made = mapping_in(value, "derive", "{column: expression}")
    for name, expression in made.items():
        bound(f"SELECT ({expression_in(expression, (name,))}\n) AS x FROM rows", table, (name,))
    kept = ", ".join(quoted(c) for c in (*table.columns, *HIDDEN) if c not in made)
    new = ", ".join(f"({expression}\n) AS {quoted(name)}" for name, expression in made.items())
    query = f"SELECT {kept}, {new} FROM rows"
    return operation(query), replace(table, columns=bound(query, table))


def select(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Keep only these columns."""
    names = columns_in(value, "select")
    for index, name in enumerate(names):
        need_column(table.columns, name, (index,) if isinstance(value, list) else ())
    query = f"SELECT {', '.join(quoted(n) for n in (*names, *HIDDEN))} FROM rows"
    return operation(query), replace(table, columns={name: table.columns[name] for name in names})


def rename(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Give columns other names: {old: new}."""
    pairs = mapping_in(value, "rename", "{old: new}")
    for old, new in pairs.items():
        need_column(table.columns, old, (old,))
        if not isinstance(new, str):
            raise StepError("form", "a column's new name is text", at=(old,))
    names = [pairs.get(column, column) for column in table.columns]
    if len(set(names)) < len(names):
        raise StepError("form", "two columns would have one name")
    listed = ", ".join(f"{quoted(c)} AS {quoted(pairs.get(c, c))}" for c in table.columns)
    query = f"SELECT {listed}, __row, __part FROM rows"
    columns = dict(zip(names, table.columns.values(), strict=True))
    return operation(query), replace(table, columns=columns)


def sort(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Order the rows by an expression, ascending unless it ends in DESC; ties keep their order."""
    text = value if isinstance(value, str) else ""
    descending = text.lower().endswith(" desc")
    expression = expression_in(text.rsplit(None, 1)[0] if descending else value)
    way = "DESC NULLS LAST" if descending else "ASC NULLS LAST"
    query = (
        f"SELECT * REPLACE (row_number() OVER (ORDER BY ({expression}\n) {way}, __row) AS __row) FROM rows"
    )
    bound(query, table)
    return operation(query), table


def dedup(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Keep the first row of those that agree in these columns; all columns when none is named."""
    names = list(table.columns) if value is None else columns_in(value, "dedup")
    for index, name in enumerate(names):
        need_column(table.columns, name, (index,) if isinstance(value, list) else ())
    keys = ", ".join(quoted(name) for name in names)
    query = f"SELECT * FROM rows QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY __row) = 1"
    return operation(query), replace(table, exact=False)


RELATIONAL: dict[str, Callable[[Any, Table, int, Others], Lowered]] = {
    "where": where,
    "derive": derive,
    "select": select,
    "rename": rename,
    "sort": sort,
    "dedup": dedup,
    "sample": sample,
    "join": join,
    "mix": mix,
    "split": split,
}
