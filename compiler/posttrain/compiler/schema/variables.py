"""Lets a variable stand for every scalar: what an editor sees is the file before it is filled in."""

from posttrain.compiler.schema.models import SAYS, Schema, mapped
from posttrain.compiler.schema.words import words

VARIABLE = r"\$\{[^{}]*\}"


def loosened(schema: Schema) -> Schema:
    """The schema, that also takes text with `${...}` where it takes a scalar."""
    made = _united(schema)
    kept = {"if": made["if"]} if "if" in made else {}  # a condition is not a demand
    made = {**mapped(made, loosened), **kept}
    if "enum" in made:
        return _chosen(made)
    types = _types(made)
    if "string" in types:
        if "pattern" in made:
            made["pattern"] = f"{made['pattern']}|{VARIABLE}"
        return made
    if {"integer", "number", "boolean"} & set(types):
        # What editors say instead of the pattern, which tells a person little.
        said = f"expected {words(made)}, or a variable such as ${{vars.NAME}}"
        return {**made, "type": [*types, "string"], "pattern": f"^{VARIABLE}$", "errorMessage": said}
    return made


def _chosen(schema: Schema) -> Schema:
    about = {key: schema[key] for key in SAYS if key in schema}
    rest = {key: value for key, value in schema.items() if key not in SAYS}
    return {**about, "anyOf": [rest, {"type": "string", "pattern": VARIABLE}]}


def _types(schema: Schema) -> list[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def _united(schema: Schema) -> Schema:
    """Alternatives of plain scalars as one schema of several types: editors explain that better."""
    members = schema.get("anyOf", ())
    if not members or not all(set(m) <= {"type", *_LIMITS} and "type" in m for m in members):
        return schema
    limits = {key: value for member in members for key, value in member.items() if key != "type"}
    if sum(len(member) - 1 for member in members) != len(limits):
        return schema
    types = list(dict.fromkeys(t for member in members for t in _types(member)))
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    if "integer" in types and "number" in types:
        types.remove("integer")
    return {**rest, "type": types, **limits}


# Each speaks of values of one type, and leaves those of other types alone.
_LIMITS = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "pattern",
    "items",
    "minItems",
    "maxItems",
)
