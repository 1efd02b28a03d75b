"""Identifiers and column types in the SQL of DuckDB."""

import re

from posttrain.spec.column_types import Type

_QUOTED_FIELD = re.compile(r'"((?:[^"]|"")*)" (.*)', re.DOTALL)

# One structure for all messages, with null for fields that a message does not have: every data step, and the
# SQL of recipes, then treats conversations with and without tool calls alike. Arguments are JSON text,
# because those of different tools have no common type.
_MESSAGE_FIELD_TYPES = {
    "role": "VARCHAR",
    "content": "VARCHAR",
    "reasoning_content": "VARCHAR",
    "tool_calls": 'STRUCT("id" VARCHAR, "function" STRUCT("name" VARCHAR, "arguments" VARCHAR))[]',
    "tool_call_id": "VARCHAR",
    "name": "VARCHAR",
    "weight": "DOUBLE",
}
_TO_SQL = {
    "text": "VARCHAR",
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "any": "VARCHAR",
    "messages": "STRUCT("
    + ", ".join(f'"{name}" {type}' for name, type in _MESSAGE_FIELD_TYPES.items())
    + ")[]",
}
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT")


def quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def sql_type(type: Type) -> str:
    if type.startswith("list<"):
        return sql_type(type[5:-1]) + "[]"
    return _TO_SQL[type]


def column_type(sql: str) -> Type:
    """Return the column type of a DuckDB type. Messages have text for `role` and `content`, and no fields
    besides those of messages: those would be lost."""
    if is_message_type(sql.removesuffix("[]")):
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


def is_message_type(sql: str) -> bool:
    """Whether a struct type has the fields of a message, or some of them with `role` and `content`."""
    fields = struct_fields(sql) or {}
    return (
        all(fields.get(name) == "VARCHAR" for name in ("role", "content"))
        and fields.keys() <= _MESSAGE_FIELD_TYPES.keys()
        and all(_is_field_type(name, type) for name, type in fields.items())
    )


def _is_field_type(name: str, type: str) -> bool:
    if name == "tool_calls":
        call = struct_fields(type.removesuffix("[]")) or {}
        function = struct_fields(call.get("function", "")) or {}
        return (
            type.endswith("[]")
            and call.get("id", "VARCHAR") == "VARCHAR"
            and call.keys() <= {"id", "function"}
            and function == {"name": "VARCHAR", "arguments": "VARCHAR"}
        )
    if name == "weight":
        return column_type(type) in ("number", "integer")
    return type in (_MESSAGE_FIELD_TYPES[name], '"NULL"')


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
