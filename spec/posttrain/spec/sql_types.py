"""Identifiers and column types in the SQL of DuckDB."""

import re

from posttrain.spec.column_types import Type

_QUOTED_FIELD = re.compile(r'"((?:[^"]|"")*)" (.*)', re.DOTALL)

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
    """Return the column type of a DuckDB type. Messages have text for `role` and `content`, and no other
    fields: those would be lost."""
    if struct_fields(sql.removesuffix("[]")) == {"role": "VARCHAR", "content": "VARCHAR"}:
        return "messages" if sql.endswith("[]") else "any"
    if sql.endswith("[]"):
        return f"list<{column_type(sql[:-2])}>"
    if sql in _INTEGERS:
        return "integer"
    if sql in ("DOUBLE", "FLOAT") or sql.startswith("DECIMAL"):
        return "number"
    if sql == "BOOLEAN":
        return "boolean"
    return "text" if sql == "VARCHAR" else "any"


def struct_fields(sql: str) -> dict[str, str] | None:
    """Return the fields of a DuckDB struct type with their types, or None if it is another type."""
    if not sql.startswith("STRUCT(") or not sql.endswith(")"):
        return None
    found: dict[str, str] = {}
    for field in _split_fields(sql[len("STRUCT(") : -1]):
        quoted = _QUOTED_FIELD.match(field)
        name, type = (quoted[1].replace('""', '"'), quoted[2]) if quoted else field.split(" ", 1)
        found[name] = type.strip()
    return found


def _split_fields(text: str) -> list[str]:
    """Split the fields of a struct at the commas outside quotes and parentheses."""
    fields, start, depth, in_quotes = list[str](), 0, 0, False
    for at, character in enumerate(text):
        if character == '"':
            in_quotes = not in_quotes
        elif not in_quotes and character in "()":
            depth += 1 if character == "(" else -1
        elif not in_quotes and depth == 0 and character == ",":
            fields.append(text[start:at].strip())
            start = at + 1
    return [*fields, text[start:].strip()]
