"""Binds SQL expressions against columns, with DuckDB over an empty table.

DuckDB runs in memory with files, network and extensions disabled. It is imported only if a recipe has an
expression. Its error messages are kept because they name similar columns.
"""

import json
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from posttrain.spec.column_types import Columns, Type
from posttrain.spec.sql_types import column_type, quote_identifier, sql_type

# Functions that return other values on each run.
_NONDETERMINISTIC = re.compile(
    r"\b(random|uuid|gen_random_uuid|uuidv4|uuidv7|now|today|current_timestamp|current_date"
    r"|current_time|transaction_timestamp|nextval|setseed|getenv|current_setting|getvariable)\b",
    re.IGNORECASE,
)
# The nodes of DuckDB's syntax tree, and the columns, that depend on other rows.
_OTHER_ROWS = {"WINDOW": "a window function", "SUBQUERY": "a subquery"}
_POSITIONS = ("__row", "rowid")
_UNKNOWN = re.compile(r'Referenced column "([^"]+)" not found in FROM clause')


class SqlError(ValueError):
    """An expression that cannot be bound. `unknown` is the name that no column has, if that is the cause."""

    def __init__(self, message: str, unknown: str = "") -> None:
        super().__init__(message)
        self.unknown = unknown


# The legs of a matrix repeat most expressions and queries, and a call of DuckDB takes a millisecond.
_CACHED_RESULTS = 1024


@lru_cache(_CACHED_RESULTS)
def check_expression(expression: str) -> None:
    """Reject everything except a single deterministic expression."""
    match = _NONDETERMINISTIC.search(expression)
    if match:
        raise SqlError(f"`{match[0]}` is not deterministic; use the steps `sample` or `split`")
    try:
        statements = database().extract_statements(f"SELECT ({expression}\n)")
    except Exception as error:
        message = _first_line(error)
        if 'at or near ")"' in message and expression.count("(") == expression.count(")"):
            message = "the expression is incomplete"
        raise SqlError(message) from None
    if len(statements) != 1 or ";" in _strip_literals(expression):
        raise SqlError("this is more than one expression")


@lru_cache(_CACHED_RESULTS)
def reads_other_rows(expression: str) -> str | None:
    """What in a valid expression depends on other rows or on the position of the row, if anything does."""
    query = f"SELECT ({expression}\n)"
    tree = database().execute("SELECT json_serialize_sql($1::VARCHAR)", [query]).fetchone()[0]
    return _find_other_rows(json.loads(tree))


def _find_other_rows(node: Any) -> str | None:
    if isinstance(node, list):
        return next(filter(None, map(_find_other_rows, node)), None)
    if not isinstance(node, dict):
        return None
    kind = node.get("class")
    if kind in _OTHER_ROWS:
        return _OTHER_ROWS[kind]
    name = node["column_names"][-1] if kind == "COLUMN_REF" else ""
    return f"`{name}`" if name.lower() in _POSITIONS else _find_other_rows(list(node.values()))


def bind(query: str, tables: Mapping[str, Columns]) -> Columns:
    """Return the columns of a query over tables with these columns."""
    return dict(_bind(query, tuple((name, tuple(columns.items())) for name, columns in tables.items())))


_Shape = tuple[tuple[str, Type], ...]


@lru_cache(_CACHED_RESULTS)
def _bind(query: str, tables: tuple[tuple[str, _Shape], ...]) -> Columns:
    try:
        for name, shape in tables:
            _define_table(name, shape)
        rows = database().execute(f"DESCRIBE {query}").fetchall()
    except Exception as error:
        message = _first_line(error)
        unknown = _UNKNOWN.match(message)
        raise SqlError(message, unknown[1] if unknown else "") from None
    return {str(row[0]): column_type(str(row[1])) for row in rows}


# The columns of the tables that exist. Successive expressions often read the same columns, and a table with
# thousands of columns is slow to create.
_defined: dict[str, _Shape] = {}


def _define_table(name: str, shape: _Shape) -> None:
    if _defined.get(name) == shape:
        return
    _defined.pop(name, None)
    # Some column names are invalid in SQL: empty names, or names that differ only in case.
    columns = ", ".join(f"{quote_identifier(c)} {sql_type(t)}" for c, t in shape)
    database().execute(f"CREATE OR REPLACE TEMP TABLE {quote_identifier(name)} ({columns})")
    _defined[name] = shape


@cache
def database() -> Any:
    import duckdb

    return duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "lock_configuration": "true",
            "threads": "1",
        },
    )


def _strip_literals(expression: str) -> str:
    return re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", "", expression)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    relevant = [line for line in lines if not line.startswith(("LINE", "^"))]
    message = " ".join(relevant[:2]) if relevant else "the expression cannot be parsed"
    return re.sub(r"^(Binder|Parser|Catalog|Conversion) Error: ", "", message)
