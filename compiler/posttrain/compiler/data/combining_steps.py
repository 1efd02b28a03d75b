"""The data steps that read other datasets: `join` adds columns, `mix` adds rows."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from posttrain.compiler.data.sampling_steps import amount_bound, check_amount, shuffle_order
from posttrain.compiler.data.table_schema import (
    HIDDEN_COLUMNS,
    OtherTables,
    StepError,
    StepResult,
    TableSchema,
    bind_query,
    parse_columns,
    parse_mapping,
    require_column,
    sql_operation,
)
from posttrain.spec.row_amounts import rows_taken
from posttrain.spec.sql_types import quote_identifier
from posttrain.spec.step_params.data_params import Operation, RowRequirement
from posttrain.spec.suggestions import hint


def join(value: Any, table: TableSchema, seed: int, others: OtherTables) -> StepResult:
    """Add the columns of another dataset where the named columns are equal."""
    options = parse_mapping(value, "join", "{with: other, on: [id]}")
    for key in options:
        if key not in ("with", "on", "kind"):
            help, _ = hint(key, ("with", "on", "kind"))
            raise StepError("form", f"`join` has no key `{key}`", help, (key,))
    other = others.get(str(options.get("with")))
    if other is None:
        raise StepError("known", "the other dataset is invalid")
    kind = options.get("kind", "inner")
    if kind not in ("inner", "left"):
        raise StepError("form", "`kind` must be inner or left", at=("kind",))
    names = parse_columns(options.get("on"), "on")
    for index, name in enumerate(names):
        for columns in (table.columns, other.columns):
            require_column(columns, name, ("on", index) if isinstance(options.get("on"), list) else ("on",))
    added = [column for column in other.columns if column not in names]
    clash = [column for column in added if column in table.columns]
    if clash:
        raise StepError("form", f"both datasets have a column `{clash[0]}`", "rename one of them first")
    on = " AND ".join(f"rows.{quote_identifier(n)} = other.{quote_identifier(n)}" for n in names)
    listed = ", ".join(
        [
            *(f"rows.{quote_identifier(c)}" for c in table.columns),
            *(f"other.{quote_identifier(c)}" for c in added),
        ]
    )
    query = (
        f"SELECT {listed}, row_number() OVER (ORDER BY rows.__row, other.__row) AS __row, rows.__part"
        f" FROM rows {kind.upper()} JOIN other ON {on}"
    )
    columns = bind_query(query, table, other={**other.columns, **HIDDEN_COLUMNS})
    return sql_operation(query, other=str(options["with"])), replace(table, columns=columns, exact=False)


def mix(value: Any, table: TableSchema, seed: int, others: OtherTables) -> StepResult:
    """Add random rows of other datasets, as {other: number of its rows (an integer), or share of them (a
    decimal up to 1.0, or a percentage)}, then shuffle all rows uniformly."""
    operations: list[Operation] = []
    total, exact = table.rows, table.exact
    for name, given in parse_mapping(value, "mix", "{other: 0.5}").items():
        other = others.get(name)
        if other is None:
            raise StepError("known", "the other dataset is invalid")
        amount = check_amount(given, (name,))
        _check_other(name, amount, table, other)
        operations += _addition(name, amount, table, seed)
        added = rows_taken(amount, other.rows) if other.rows is not None else None
        total = None if total is None or added is None else total + added
        exact = exact and other.exact and not other.estimated_parts
    if set(table.parts) != {"all"}:
        raise StepError("form", "`mix` must come before `split`")
    # The positions are unique here, so this is a uniform permutation of all rows.
    order = (
        f"SELECT * REPLACE (row_number() OVER (ORDER BY {shuffle_order(seed, 'order:')}) AS __row) FROM rows"
    )
    return operations + sql_operation(order), replace(
        table, parts={"all": total}, exact=exact, estimated_parts=table.estimated_parts
    )


def _check_other(name: str, amount: int | Fraction, table: TableSchema, other: TableSchema) -> None:
    missing = [column for column in table.columns if column not in other.columns]
    if missing:
        raise StepError("column", f"`{name}` has no column `{missing[0]}`", at=(name,))
    most = other.max_rows(None)
    if other.exact and most is not None and isinstance(amount, int) and amount > most:
        message = f"`mix` takes {amount} rows, but `{name}` has only {most}"
        raise StepError("rows", message, "set 1.0 to take all its rows", (name,))


def _addition(name: str, amount: int | Fraction, table: TableSchema, seed: int) -> list[Operation]:
    """Append the selected rows, at positions after all others. The selection has a hash of its own: with that
    of the final order, the selected rows would come first."""
    listed = ", ".join(quote_identifier(column) for column in table.columns)
    salt = f"select:{name}:".replace("'", "''")
    order = f"row_number() OVER (ORDER BY {shuffle_order(seed, salt)})"
    query = (
        f"SELECT {listed}, __row, 'all' AS __part FROM rows UNION ALL"
        f" SELECT {listed}, __row + (SELECT coalesce(max(__row), 0) FROM rows), 'all' FROM"
        f" (SELECT * FROM other QUALIFY {order} <= {amount_bound(amount, 'count(*) OVER ()')})"
    )
    needs = None
    if isinstance(amount, int):
        needs = RowRequirement(table="other", rows=amount, step=f"mix of {name}")
    return sql_operation(query, other=name, needs=needs)
