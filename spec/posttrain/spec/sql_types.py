"""Identifiers and column types in the SQL of DuckDB."""

from posttrain.spec.column_types import Type

_TO_SQL = {
    "text": "VARCHAR",
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "any": "VARCHAR",
    "messages": 'STRUCT("role" VARCHAR, "content" VARCHAR)[]',
}
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT")


def quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def sql_type(type: Type) -> str:
    if type.startswith("list<"):
        return sql_type(type[5:-1]) + "[]"
    return _TO_SQL[type]


def column_type(sql: str) -> Type:
    """Return the column type of a DuckDB type."""
    if sql.startswith("STRUCT(") and "role" in sql and "content" in sql and sql.endswith("[]"):
        return "messages"
    if sql.endswith("[]"):
        return f"list<{column_type(sql[:-2])}>"
    if sql in _INTEGERS:
        return "integer"
    if sql in ("DOUBLE", "FLOAT") or sql.startswith("DECIMAL"):
        return "number"
    if sql == "BOOLEAN":
        return "boolean"
    return "text" if sql == "VARCHAR" else "any"
