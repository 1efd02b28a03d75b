"""Allows `${...}` in place of every scalar, because editors check files before interpolation."""

from posttrain.compiler.schema.schema_declarations import ANNOTATION_KEYWORDS, Schema, map_subschemas
from posttrain.compiler.schema.schema_wording import describe_schema

VARIABLE_PATTERN = r"\$\{[^{}]*\}"


def allow_variables(schema: Schema) -> Schema:
    """The schema, which also accepts text with `${...}` in place of a scalar."""
    result = _merge_scalar_alternatives(schema)
    condition = {"if": result["if"]} if "if" in result else {}  # a condition restricts nothing
    result = {**map_subschemas(result, allow_variables), **condition}
    if "enum" in result:
        return _enum_or_variable(result)
    types = _schema_types(result)
    if "string" in types:
        if "pattern" in result:
            result["pattern"] = f"{result['pattern']}|{VARIABLE_PATTERN}"
        return result
    if {"integer", "number", "boolean"} & set(types):
        # Editors show this message instead of the pattern.
        message = f"expected {describe_schema(result)}, or a variable such as ${{vars.NAME}}"
        return {
            **result,
            "type": [*types, "string"],
            "pattern": f"^{VARIABLE_PATTERN}$",
            "errorMessage": message,
        }
    return result


def _enum_or_variable(schema: Schema) -> Schema:
    about = {key: schema[key] for key in ANNOTATION_KEYWORDS if key in schema}
    rest = {key: value for key, value in schema.items() if key not in ANNOTATION_KEYWORDS}
    return {**about, "anyOf": [rest, {"type": "string", "pattern": VARIABLE_PATTERN}]}


def _schema_types(schema: Schema) -> list[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def _merge_scalar_alternatives(schema: Schema) -> Schema:
    """Merge alternatives of plain scalars into one schema with several types, for better editor messages."""
    members = schema.get("anyOf", ())
    if not members or not all(set(m) <= {"type", *_LIMIT_KEYWORDS} and "type" in m for m in members):
        return schema
    limits = {key: value for member in members for key, value in member.items() if key != "type"}
    if sum(len(member) - 1 for member in members) != len(limits):
        return schema
    types = list(dict.fromkeys(t for member in members for t in _schema_types(member)))
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    if "integer" in types and "number" in types:
        types.remove("integer")
    return {**rest, "type": types, **limits}


# Keywords that apply to values of one type and ignore others.
_LIMIT_KEYWORDS = (
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
