"""The data steps that sample rows at random, or add rows of other datasets.

A sampling step orders the rows by a hash of its seed and the row position, so it always selects the same
rows.
"""

from dataclasses import replace
from typing import Any

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
from posttrain.spec.sql_types import quote_identifier
from posttrain.spec.step_params.data_params import Operation
from posttrain.spec.suggestions import hint


def sample(value: Any, table: TableSchema, seed: int, others: OtherTables) -> StepResult:
    """Keep a random sample of the rows: a number of rows, or a share below 1. The order does not change."""
    _check_amount(value, "sample", ())
    _check_enough_rows(value, table, ())
    order = f"row_number() OVER (PARTITION BY __part ORDER BY {_shuffle_order(seed)})"
    bound = f"ceil({value} * count(*) OVER (PARTITION BY __part))" if value < 1 else str(value)
    query = f"SELECT * FROM rows QUALIFY {order} <= {bound}"
    parts = {part: _rows_taken(value, count) for part, count in table.parts.items()}
    guessed = table.estimated_parts if value < 1 else frozenset[str]()
    return sql_operation(query), replace(table, parts=parts, estimated_parts=guessed)


def split(value: Any, table: TableSchema, seed: int, others: OtherTables) -> StepResult:
    """Move random rows to named parts. The remaining rows are the part `train`."""
    sizes = parse_mapping(value, "split", "{test: 200}")
    if set(table.parts) != {"all"}:
        raise StepError("form", "the rows are already split")
    total, upto, cases, parts = table.rows, "0", "", dict[str, int | None]()
    for part, size in sizes.items():
        if part in ("train", "all") or not part.isidentifier():
            raise StepError("form", f"`{part}` is not a valid name of a part", at=(part,))
        _check_amount(size, "split", (part,))
        parts[part] = _rows_taken(size, total)
        amount = f"ceil({size} * __all)" if size < 1 else str(size)
        upto = f"{upto} + {amount}"
        cases += f" WHEN __place <= {upto} THEN '{part}'"
    taken = [count for count in parts.values() if count is not None]
    known = table.max_rows(None) is not None and table.exact
    if total is not None and known and len(taken) == len(parts) and sum(taken) >= total:
        raise StepError("rows", f"the parts take {sum(taken)} rows, but the data has only {total}")
    rest = None if total is None or len(taken) < len(parts) else total - sum(taken)
    query = (
        f"SELECT * EXCLUDE (__place, __all) REPLACE (CASE{cases} ELSE 'train' END AS __part) FROM"
        f" (SELECT *, row_number() OVER (ORDER BY {_shuffle_order(seed)}) AS __place,"
        " count(*) OVER () AS __all FROM rows)"
    )
    checks = {part: size for part, size in sizes.items() if size >= 1}
    guessed = frozenset(
        {"train", *(part for part in sizes if part not in checks)} if table.estimated_parts else ()
    )
    if rest is not None and rest < 0:
        rest = None
    return sql_operation(query, at_least=checks), replace(
        table, parts={"train": rest, **parts}, estimated_parts=guessed
    )


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
    """Add rows of other datasets, as {other: share of its rows, or their number}, then shuffle all rows."""
    operations: list[Operation] = []
    parts = dict(table.parts)
    for name, amount in parse_mapping(value, "mix", "{other: 0.5}").items():
        other = others.get(name)
        if other is None:
            raise StepError("known", "the other dataset is invalid")
        _check_amount(amount, "mix", (name,))
        missing = [column for column in table.columns if column not in other.columns]
        if missing:
            raise StepError("column", f"`{name}` has no column `{missing[0]}`", at=(name,))
        listed = ", ".join(quote_identifier(c) for c in table.columns)
        bound = f"ceil({amount} * count(*) OVER ())" if amount <= 1 else str(amount)
        query = (
            f"SELECT {listed}, __row, __part FROM rows UNION ALL SELECT {listed}, __row, 'all' FROM"
            f" (SELECT * FROM other QUALIFY row_number() OVER (ORDER BY {_shuffle_order(seed)}) <= {bound})"
        )
        operations += sql_operation(query, other=name)
        parts = {"all": None}
    if set(table.parts) != {"all"}:
        raise StepError("form", "`mix` must come before `split`")
    order = (
        f"SELECT * REPLACE (row_number() OVER (ORDER BY {_shuffle_order(seed)}, hash(rows)) AS __row) FROM"
        " rows"
    )
    return operations + sql_operation(order), replace(
        table, parts=parts, exact=False, estimated_parts=frozenset()
    )


def _check_amount(value: Any, what: str, at: tuple[str | int, ...]) -> None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    if not good or (value >= 1 and value != int(value)):
        raise StepError("form", f"`{what}` takes a number of rows, or a share below 1", at=at)


def _check_enough_rows(value: int | float, table: TableSchema, at: tuple[str | int, ...]) -> None:
    most = table.max_rows(None)
    if table.exact and most is not None and value > most:
        help = "remove the step to take all rows, or set a share below 1"
        raise StepError("rows", f"`sample` takes {value} rows, but the data has only {most}", help, at=at)


def _rows_taken(size: int | float, total: int | None) -> int | None:
    if size >= 1:
        return int(size)
    return None if total is None else -int(-size * total // 1)


def _shuffle_order(seed: int) -> str:
    return f"md5(concat('{seed}:', __row)), __row"
