"""Describes schemas in words, such as `a whole number, at least 1`."""

from collections.abc import Sequence

from posttrain.compiler.schema.schema_declarations import Schema

_TYPE_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
_NULL: Schema = {"type": "null"}
_LIMIT_WORDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
    "minItems": "at least",
}


def describe_schema(schema: Schema) -> str:
    """A description of the values of a schema."""
    return join_choices(_alternatives(schema)) or "anything"


def _alternatives(schema: Schema) -> list[str]:
    if "enum" in schema:
        return [f"`{value}`" for value in schema["enum"]]
    if "const" in schema:
        return [f"`{schema['const']}`"]
    if "$ref" in schema:
        return [_describe_ref(schema["$ref"].rpartition("/")[2])]
    if "anyOf" in schema:
        return [text for member in schema["anyOf"] if member != _NULL for text in _alternatives(member)]
    types = schema.get("type", [])
    alternatives = [
        _describe_json_type(type, schema) for type in ([types] if isinstance(types, str) else types)
    ]
    return [text for text in alternatives if text != "nothing" or len(alternatives) == 1]


def _describe_json_type(type: str, schema: Schema) -> str:
    limits = [f"{says} {_format_number(schema[key])}" for key, says in _LIMIT_WORDS.items() if key in schema]
    match type:
        case "integer" | "number" if limits:
            return f"{_TYPE_WORDS[type]}, {' and '.join(limits)}"
        case "array" if schema.get("items"):
            return f"a list of {_plural(describe_schema(schema['items']))}"
        case "object" if _mapping_value_schema(schema):
            return f"a mapping from names to {_plural(describe_schema(_mapping_value_schema(schema)))}"
        case "object" if schema.get("properties") and not schema.get("minProperties"):
            return "{" + ", ".join(f"{name}: ..." for name in schema["properties"]) + "}"
        case _:
            return _TYPE_WORDS[type]


def _mapping_value_schema(schema: Schema) -> Schema:
    """The schema of the values of a mapping by name."""
    values = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
    return next((value for value in values if isinstance(value, dict)), {})


def _describe_ref(name: str) -> str:
    kind, _, rest = name.partition(".")
    if kind == "node":
        return "a node" if rest == "any" else f"a node that returns {describe_type(rest)}"
    return {"step": "a data step", "stage": "a stage"}.get(name, "a mapping")


def _plural(text: str) -> str:
    return {
        "a number": "numbers",
        "a whole number": "whole numbers",
        "a mapping": "mappings",
        "a node": "nodes",
        "a data step": "data steps",
        "a stage": "stages",
    }.get(text, text)


def _format_number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def join_choices(choices: Sequence[str]) -> str:
    """Join choices as `a`, `b` or `c`, without duplicates."""
    alternatives = list(dict.fromkeys(choices))
    return (
        alternatives[0]
        if len(alternatives) == 1
        else f"{', '.join(alternatives[:-1])} or {alternatives[-1]}"
        if alternatives
        else ""
    )


def describe_type(type: str) -> str:
    """The type of a column or node in words."""
    return {"number": "a number", "integer": "a whole number", "boolean": "true or false"}.get(type, type)
