"""Relational data steps, each to one SQL query over the table `rows`.

Rows carry `__row`, their place, and after a split `__part`. Queries keep both, so that order never
depends on how they were carried out. A step that draws at random orders by a hash of the step's
seed and the row's place.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from posttrain.compiler.data.sql import bind, check_expression, quoted
from posttrain.compiler.suggest import hint
from posttrain.spec.record import record
from posttrain.spec.types import Columns

HIDDEN = {"__row": "integer", "__part": "text"}


@record(kw_only=True)
class Table:
    """What is known of rows at a point between two steps."""

    columns: Columns
    # Parts by name, with their number of rows where it is known.
    parts: Mapping[str, int | None] = field(default_factory=lambda: {"all": None})
    # Whether the row counts are exact or only the most that there can be.
    exact: bool = True

    @property
    def rows(self) -> int | None:
        counts = list(self.parts.values())
        return None if None in counts else sum(count or 0 for count in counts)


class StepError(ValueError):
    """A step that does not fit, with the code's name, a help line and where below the step."""

    def __init__(self, code: str, message: str, help: str = "", at: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.help = help
        self.at = at


Lowered = tuple[list[dict[str, Any]], Table]
Others = Mapping[str, Table]


def _query(sql: str, **more: Any) -> list[dict[str, Any]]:
    return [{"op": "sql", "query": sql, **more}]


def _need(columns: Columns, name: str, at: tuple[str | int, ...]) -> None:
    if name not in columns:
        help, _ = hint(name, columns, what="columns here")
        raise StepError("column", f"there is no column `{name}` here", help, at)


def _names(value: Any, what: str) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise StepError("form", f"`{what}` takes a column or a list of columns")
    return [str(name) for name in names]


def _mapping(value: Any, what: str, form: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise StepError("form", f"`{what}` takes a mapping such as {form}")
    return {str(key): item for key, item in value.items()}


def _expression(value: Any, at: tuple[str | int, ...] = ()) -> str:
    if not isinstance(value, str):
        raise StepError("form", "an SQL expression is text", at=at)
    try:
        check_expression(value)
    except ValueError as error:
        raise StepError("sql", str(error), at=at) from None
    return value


def _bound(query: str, table: Table, at: tuple[str | int, ...] = (), **more: Columns) -> Columns:
    try:
        found = bind(query, {"rows": {**table.columns, **HIDDEN}, **more})
    except ValueError as error:
        raise StepError("sql", str(error), at=at) from None
    return {name: type for name, type in found.items() if name not in HIDDEN}


def where(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Keep the rows for which the expression is true."""
    query = f"SELECT * FROM rows WHERE ({_expression(value)}\n)"
    _bound(query, table)
    return _query(query), replace(table, exact=False)


def derive(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Add or replace columns, all computed from the columns before the step."""
    made = _mapping(value, "derive", "{column: expression}")
    for name, expression in made.items():
        _bound(f"SELECT ({_expression(expression, (name,))}\n) AS x FROM rows", table, (name,))
    kept = ", ".join(quoted(c) for c in (*table.columns, *HIDDEN) if c not in made)
    new = ", ".join(f"({expression}\n) AS {quoted(name)}" for name, expression in made.items())
    query = f"SELECT {kept}, {new} FROM rows"
    return _query(query), replace(table, columns=_bound(query, table))


def select(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Keep only these columns."""
    names = _names(value, "select")
    for index, name in enumerate(names):
        _need(table.columns, name, (index,) if isinstance(value, list) else ())
    query = f"SELECT {', '.join(quoted(n) for n in (*names, *HIDDEN))} FROM rows"
    return _query(query), replace(table, columns={name: table.columns[name] for name in names})


def rename(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Give columns other names: {old: new}."""
    pairs = _mapping(value, "rename", "{old: new}")
    for old, new in pairs.items():
        _need(table.columns, old, (old,))
        if not isinstance(new, str):
            raise StepError("form", "a column's new name is text", at=(old,))
    names = [pairs.get(column, column) for column in table.columns]
    if len(set(names)) < len(names):
        raise StepError("form", "two columns would have one name")
    listed = ", ".join(f"{quoted(c)} AS {quoted(pairs.get(c, c))}" for c in table.columns)
    query = f"SELECT {listed}, __row, __part FROM rows"
    columns = dict(zip(names, table.columns.values(), strict=True))
    return _query(query), replace(table, columns=columns)


def sort(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Order the rows by an expression, ascending unless it ends in DESC; ties keep their order."""
    text = value if isinstance(value, str) else ""
    descending = text.lower().endswith(" desc")
    expression = _expression(text.rsplit(None, 1)[0] if descending else value)
    way = "DESC NULLS LAST" if descending else "ASC NULLS LAST"
    query = (
        f"SELECT * REPLACE (row_number() OVER (ORDER BY ({expression}\n) {way}, __row) AS __row) FROM rows"
    )
    _bound(query, table)
    return _query(query), table


def dedup(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Keep the first row of those that agree in these columns; all columns when none is named."""
    names = list(table.columns) if value is None else _names(value, "dedup")
    for index, name in enumerate(names):
        _need(table.columns, name, (index,) if isinstance(value, list) else ())
    keys = ", ".join(quoted(name) for name in names)
    query = f"SELECT * FROM rows QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY __row) = 1"
    return _query(query), replace(table, exact=False)


def sample(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Keep this many rows, or this share of them, drawn at random; their order stays."""
    _count(value, "sample", ())
    _enough(value, table, ())
    order = f"row_number() OVER (PARTITION BY __part ORDER BY {_shuffled(seed)})"
    bound = f"ceil({value} * count(*) OVER (PARTITION BY __part))" if value < 1 else str(value)
    query = f"SELECT * FROM rows QUALIFY {order} <= {bound}"
    parts = {part: _taken(value, count) for part, count in table.parts.items()}
    return _query(query), replace(table, parts=parts)


def split(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Move rows, drawn at random, to named parts; the rest is `train`."""
    wanted = _mapping(value, "split", "{test: 200}")
    if set(table.parts) != {"all"}:
        raise StepError("form", "these rows are split already")
    total, upto, cases, parts = table.rows, "0", "", dict[str, int | None]()
    for part, size in wanted.items():
        if part in ("train", "all") or not part.isidentifier():
            raise StepError("form", f"a part cannot be named `{part}`", at=(part,))
        _count(size, "split", (part,))
        parts[part] = _taken(size, total)
        amount = f"ceil({size} * __all)" if size < 1 else str(size)
        upto = f"{upto} + {amount}"
        cases += f" WHEN __place <= {upto} THEN '{part}'"
    taken = [count for count in parts.values() if count is not None]
    if total is not None and table.exact and len(taken) == len(parts) and sum(taken) >= total:
        raise StepError("rows", f"{sum(taken)} rows are taken, and the data has {total}")
    rest = None if total is None or len(taken) < len(parts) else total - sum(taken)
    query = (
        f"SELECT * EXCLUDE (__place, __all) REPLACE (CASE{cases} ELSE 'train' END AS __part) FROM"
        f" (SELECT *, row_number() OVER (ORDER BY {_shuffled(seed)}) AS __place,"
        " count(*) OVER () AS __all FROM rows)"
    )
    checks = {part: size for part, size in wanted.items() if size >= 1}
    return _query(query, at_least=checks), replace(table, parts={"train": rest, **parts})


def join(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Add the columns of another dataset where the named columns agree."""
    given = _mapping(value, "join", "{with: other, on: [id]}")
    for key in given:
        if key not in ("with", "on", "kind"):
            help, _ = hint(key, ("with", "on", "kind"))
            raise StepError("form", f"`join` has no key `{key}`", help, (key,))
    other = others.get(str(given.get("with")))
    if other is None:
        raise StepError("known", "the other dataset is not usable")
    kind = given.get("kind", "inner")
    if kind not in ("inner", "left"):
        raise StepError("form", "`kind` is inner or left", at=("kind",))
    names = _names(given.get("on"), "on")
    for index, name in enumerate(names):
        for columns in (table.columns, other.columns):
            _need(columns, name, ("on", index) if isinstance(given.get("on"), list) else ("on",))
    added = [column for column in other.columns if column not in names]
    clash = [column for column in added if column in table.columns]
    if clash:
        raise StepError("form", f"both sides have a column `{clash[0]}`", "rename one of them first")
    on = " AND ".join(f"rows.{quoted(n)} = other.{quoted(n)}" for n in names)
    listed = ", ".join(
        [*(f"rows.{quoted(c)}" for c in table.columns), *(f"other.{quoted(c)}" for c in added)]
    )
    query = (
        f"SELECT {listed}, row_number() OVER (ORDER BY rows.__row, other.__row) AS __row, rows.__part"
        f" FROM rows {kind.upper()} JOIN other ON {on}"
    )
    columns = _bound(query, table, other={**other.columns, **HIDDEN})
    return _query(query, other=str(given["with"])), replace(table, columns=columns, exact=False)


def mix(value: Any, table: Table, seed: int, others: Others) -> Lowered:
    """Add rows of other datasets: {other: share of its rows, or their number}; then shuffle."""
    operations: list[dict[str, Any]] = []
    parts = dict(table.parts)
    for name, amount in _mapping(value, "mix", "{other: 0.5}").items():
        other = others.get(name)
        if other is None:
            raise StepError("known", "the other dataset is not usable")
        _count(amount, "mix", (name,))
        missing = [column for column in table.columns if column not in other.columns]
        if missing:
            raise StepError("column", f"`{name}` has no column `{missing[0]}`", at=(name,))
        listed = ", ".join(quoted(c) for c in table.columns)
        bound = f"ceil({amount} * count(*) OVER ())" if amount <= 1 else str(amount)
        query = (
            f"SELECT {listed}, __row, __part FROM rows UNION ALL SELECT {listed}, __row, 'all' FROM"
            f" (SELECT * FROM other QUALIFY row_number() OVER (ORDER BY {_shuffled(seed)}) <= {bound})"
        )
        operations += _query(query, other=name)
        parts = {"all": None}
    if set(table.parts) != {"all"}:
        raise StepError("form", "mix before the split")
    order = (
        f"SELECT * REPLACE (row_number() OVER (ORDER BY {_shuffled(seed)}, hash(rows)) AS __row) FROM rows"
    )
    return operations + _query(order), replace(table, parts=parts, exact=False)


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


def _count(value: Any, what: str, at: tuple[str | int, ...]) -> None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    if not good or (value >= 1 and value != int(value)):
        raise StepError("form", f"`{what}` takes a number of rows, or a share below 1", at=at)


def _enough(value: int | float, table: Table, at: tuple[str | int, ...]) -> None:
    if table.exact and table.rows is not None and value > table.rows:
        raise StepError("rows", f"{value} rows are asked for, and the data has {table.rows}", at=at)


def _taken(size: int | float, total: int | None) -> int | None:
    if size >= 1:
        return int(size)
    return None if total is None else -int(-size * total // 1)


def _shuffled(seed: int) -> str:
    return f"md5(concat('{seed}:', __row)), __row"
