"""The relational data steps: each becomes one SQL query over the table `rows`.

Each row has `__row`, its position, and after a split `__part`. Queries keep both columns, so the order of the
rows does not depend on how the query runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from posttrain.compiler.data.combining_steps import join, mix
from posttrain.compiler.data.sampling_steps import sample, split
from posttrain.compiler.data.table_schema import (
    HIDDEN_COLUMNS,
    OtherTables,
    StepError,
    StepResult,
    TableSchema,
    bind_query,
    parse_columns,
    parse_expression,
    parse_mapping,
    require_column,
    sql_operation,
)
from posttrain.spec.sql_types import quote_identifier


def where(value: Any, table: TableSchema, seed: int, others: OtherTables) -> StepResult:
    """Keep the rows that meet a condition."""
    condition = parse_expression(value)
    query = f"SELECT * FROM rows WHERE ({condition}\n)"
    bind_query(query, table)
    type = bind_query(f"SELECT ({condition}\n) AS x FROM rows", table)["x"]
    if type not in ("boolean", "any"):
        raise StepError("sql", f"`where` takes a condition, not {type}", "for example length(prompt) < 500")
    return sql_operation(query), replace(table, exact=False)


def derive(value: Any, table: TableSchema, seed: int, others: OtherTables) -> StepResult:
    """Add or replace columns. All expressions read the columns before the step."""
    derived = parse_mapping(value, "derive", "{column: expression}")
    _check_expressions({name: parse_expression(value, (name,)) for name, value in derived.items()}, table)
    remaining = ", ".join(quote_identifier(c) for c in (*table.columns, *HIDDEN_COLUMNS) if c not in derived)
    new = ", ".join(f"({expression}\n) AS {quote_identifier(name)}" for name, expression in derived.items())
    query = f"SELECT {remaining}, {new} FROM rows"
    return sql_operation(query), replace(table, columns=bind_query(query, table))


def _check_expressions(expressions: Mapping[str, str], table: TableSchema) -> None:
    """Bind expressions together, because one by one takes minutes for thousands of columns.

    Bisection finds the first invalid one."""
    if len(expressions) == 1:
        ((name, expression),) = expressions.items()
        bind_query(f"SELECT ({expression}\n) AS x FROM rows", table, (name,))
        return
    listed = ", ".join(f"({expression}\n)" for expression in expressions.values())
    try:
        bind_query(f"SELECT {listed} FROM rows", table)
    except StepError:
        items = list(expressions.items())
        for half in (items[: len(items) // 2], items[len(items) // 2 :]):
            _check_expressions(dict(half), table)


def select(value: Any, table: TableSchema, seed: int, others: OtherTables) -> StepResult:
    """Keep only the named columns."""
    names = parse_columns(value, "select")
    for index, name in enumerate(names):
        require_column(table.columns, name, (index,) if isinstance(value, list) else ())
    query = f"SELECT {', '.join(quote_identifier(n) for n in (*names, *HIDDEN_COLUMNS))} FROM rows"
    return sql_operation(query), replace(table, columns={name: table.columns[name] for name in names})


def rename(value: Any, table: TableSchema, seed: int, others: OtherTables) -> StepResult:
    """Rename columns: {old: new}."""
    pairs = parse_mapping(value, "rename", "{old: new}")
    for old, new in pairs.items():
        require_column(table.columns, old, (old,))
        if not isinstance(new, str):
            raise StepError("form", "the new name of a column must be text", at=(old,))
    names = [pairs.get(column, column) for column in table.columns]
    if len(set(names)) < len(names):
        raise StepError("form", "two columns would have the same name")
    listed = ", ".join(f"{quote_identifier(c)} AS {quote_identifier(pairs.get(c, c))}" for c in table.columns)
    query = f"SELECT {listed}, __row, __part FROM rows"
    columns = dict(zip(names, table.columns.values(), strict=True))
    return sql_operation(query), replace(table, columns=columns)


def sort(value: Any, table: TableSchema, seed: int, others: OtherTables) -> StepResult:
    """Sort the rows by an expression, ascending unless it ends in DESC. The sort is stable."""
    text = value if isinstance(value, str) else ""
    descending = text.lower().endswith(" desc")
    expression = parse_expression(text.rsplit(None, 1)[0] if descending else value)
    way = "DESC NULLS LAST" if descending else "ASC NULLS LAST"
    query = (
        f"SELECT * REPLACE (row_number() OVER (ORDER BY ({expression}\n) {way}, __row) AS __row) FROM rows"
    )
    bind_query(query, table)
    return sql_operation(query), table


def dedup(value: Any, table: TableSchema, seed: int, others: OtherTables) -> StepResult:
    """Keep the first row of each group with equal values in the named columns. Default: all columns."""
    names = list(table.columns) if value is None else parse_columns(value, "dedup")
    for index, name in enumerate(names):
        require_column(table.columns, name, (index,) if isinstance(value, list) else ())
    keys = ", ".join(quote_identifier(name) for name in names)
    query = f"SELECT * FROM rows QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY __row) = 1"
    return sql_operation(query), replace(table, exact=False)


RELATIONAL_STEPS: dict[str, Callable[[Any, TableSchema, int, OtherTables], StepResult]] = {
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
# The steps that compute each row from that row, so that a window of a streamed dataset is enough.
ROW_STEPS = ("where", "derive", "select", "rename")
