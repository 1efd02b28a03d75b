"""The data steps that sample rows at random: `sample` and `split`.

A sampling step orders the rows by a hash of its seed and the row position, so it always selects the same
rows.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from posttrain.compiler.data.table_schema import (
    OtherTables,
    StepError,
    StepResult,
    TableSchema,
    parse_columns,
    parse_mapping,
    require_column,
    sql_operation,
)
from posttrain.spec.row_amounts import parse_amount, part_sizes, rows_taken
from posttrain.spec.step_params.data_params import RowRequirement, SplitOperation

_REST = "train"


def sample(value: Any, table: TableSchema, seed: int, others: OtherTables) -> StepResult:
    """Keep a random sample of the rows, of each part if the rows are split: a number of rows (an integer),
    or a share (a decimal up to 1.0, or a percentage). The order does not change."""
    amount = check_amount(value, ())
    _check_enough_rows(amount, table)
    order = f"row_number() OVER (PARTITION BY __part ORDER BY {shuffle_order(seed)})"
    bound = amount_bound(amount, "count(*) OVER (PARTITION BY __part)")
    query = f"SELECT * FROM rows QUALIFY {order} <= {bound}"
    parts = {part: _expected_rows(amount, count) for part, count in table.parts.items()}
    is_share = isinstance(amount, Fraction)
    needs = None if is_share else RowRequirement(table="rows", rows=amount, step="sample")
    guessed = table.estimated_parts if is_share else frozenset[str]()
    return sql_operation(query, needs=needs), replace(table, parts=parts, estimated_parts=guessed)


def split(value: Any, table: TableSchema, seed: int, others: OtherTables) -> StepResult:
    """Move random rows to named parts, each a number of rows or a share. The remaining rows are the part
    `train`. Identical rows stay in one part; `group_by` also keeps the rows together that are equal in these
    columns."""
    sizes = parse_mapping(value, "split", "{test: 200}")
    if set(table.parts) != {"all"}:
        raise StepError("form", "the rows are already split")
    group_by = _group_columns(sizes, table)
    if not sizes:
        raise StepError("form", "`split` names no part", "for example split: {test: 200, group_by: document}")
    amounts: dict[str, int | Fraction] = {}
    for part, size in sizes.items():
        if part in (_REST, "all") or not part.isidentifier():
            raise StepError("form", f"`{part}` is not a valid name of a part", at=(part,))
        amounts[part] = check_amount(size, (part,))
    if sum(amount for amount in amounts.values() if isinstance(amount, Fraction)) >= 1:
        raise StepError("form", "the parts take all rows: no row remains for `train`", "use smaller shares")
    operation = SplitOperation(parts=sizes, group_by=tuple(group_by), seed=seed)
    return [operation], _split_table(table, amounts, bool(group_by))


def _group_columns(sizes: dict[str, Any], table: TableSchema) -> list[str]:
    """Remove `group_by` from the mapping of parts, and return its columns."""
    if "group_by" not in sizes:
        return []
    value = sizes.pop("group_by")
    names = parse_columns(value, "group_by")
    for index, name in enumerate(names):
        require_column(table.columns, name, ("group_by", index) if isinstance(value, list) else ("group_by",))
    return names


def _split_table(table: TableSchema, amounts: Mapping[str, int | Fraction], grouped: bool) -> TableSchema:
    """The table after a split. The sizes of parts of whole groups are estimates."""
    parts = (_REST, *amounts)
    total, is_known = table.rows, table.max_rows(None) is not None and table.exact
    counts: dict[str, int | None] = {
        part: one if isinstance(one, int) else None for part, one in amounts.items()
    }
    if total is not None:
        try:
            counts = {**part_sizes(amounts, total, rest=_REST)}
        except ValueError as error:
            if is_known:
                raise StepError("rows", str(error)) from None
    guessed = frozenset(
        part for part in parts if grouped or part == _REST or isinstance(amounts[part], Fraction)
    )
    return replace(
        table,
        parts={part: counts.get(part) for part in parts},
        estimated_parts=guessed if grouped or table.estimated_parts else frozenset(),
        estimate_source=table.estimate_source or ("whole groups" if grouped else ""),
    )


def check_amount(value: Any, at: tuple[str | int, ...]) -> int | Fraction:
    try:
        return parse_amount(value)
    except ValueError as error:
        raise StepError("form", str(error), at=at) from None


def amount_bound(amount: int | Fraction, total: str) -> str:
    """An SQL expression: the number of rows that the amount takes of the total. Integers keep it exact."""
    if isinstance(amount, int):
        return str(amount)
    numerator, denominator = amount.numerator, amount.denominator
    return f"greatest(1, (CAST({2 * numerator} AS HUGEINT) * {total} + {denominator}) // {2 * denominator})"


def shuffle_order(seed: int, salt: str = "") -> str:
    return f"md5(concat('{seed}:{salt}', __row)), __row"


def _expected_rows(amount: int | Fraction, count: int | None) -> int | None:
    if count is None:
        return amount if isinstance(amount, int) else None
    return rows_taken(amount, count)


def _check_enough_rows(amount: int | Fraction, table: TableSchema) -> None:
    most = table.max_rows(None)
    if table.exact and most is not None and isinstance(amount, int) and amount > most:
        help = "remove the step to take all rows, or set a share such as 0.5"
        raise StepError("rows", f"`sample` takes {amount} rows, but the data has only {most}", help)
