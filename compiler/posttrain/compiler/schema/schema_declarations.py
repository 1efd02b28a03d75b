"""Converts declarations to JSON Schema: types, bounds and descriptions.

A definition has the name of its class, with the extension as a prefix for extensions. `schema_language`
restricts the fields that declarations leave open (`Any`, names from the catalog).
"""

import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from posttrain.spec.declaration_fields import (
    Declaration,
    DeclaredField,
    constraints,
    dump_declaration,
    fields_of,
)
from posttrain.spec.field_types import AcceptSingle

Schema = dict[str, Any]
Definitions = dict[str, Schema]

# Keywords that describe a value without restricting it.
ANNOTATION_KEYWORDS = ("description", "default", "examples")
# Keywords whose value is one schema, a list of schemas, or a mapping of schemas.
_SINGLE_SUBSCHEMA = (
    "items",
    "additionalProperties",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "contains",
)
_LISTED_SUBSCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED_SUBSCHEMAS = ("properties", "patternProperties", "$defs", "dependentSchemas")
_SCALAR_TYPES: Mapping[Any, str] = {
    int: "integer",
    float: "number",
    bool: "boolean",
    str: "string",
    type(None): "null",
}
# The keywords for bounds, by the type of the value.
_NUMBERS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_TEXTS = {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"}
_LISTS = {"min_length": "minItems", "max_length": "maxItems"}
_MAPPINGS = {"min_length": "minProperties", "max_length": "maxProperties"}
_BOUNDS = {"integer": _NUMBERS, "number": _NUMBERS, "string": _TEXTS, "array": _LISTS, "object": _MAPPINGS}


def declaration_definitions(model: type[Declaration], prefix: str = "") -> Definitions:
    """The definitions of a declaration and of all nested ones; its own comes first."""
    found: Definitions = {}
    waiting = [model]
    while waiting:
        one = waiting.pop(0)
        name = f"{prefix}{one.__name__}"
        if name not in found:
            found[name] = _declaration_schema(one, prefix)
            waiting += [
                inner for field in fields_of(one).values() for inner in _nested_declarations(field.annotation)
            ]
    return found


def _nested_declarations(kind: Any) -> Iterator[type[Declaration]]:
    """The declarations in a type."""
    if isinstance(kind, type) and issubclass(kind, Declaration):
        yield kind
    for part in get_args(kind):
        yield from _nested_declarations(part)


def _declaration_schema(model: type[Declaration], prefix: str) -> Schema:
    fields = fields_of(model).values()
    needed = [one.key for one in fields if one.required]
    says = " ".join((model.__doc__ or "").split())
    return {
        **({"description": says} if says else {}),
        "type": "object",
        "properties": {one.key: _field_schema(one, prefix) for one in fields},
        **({"required": needed} if needed else {}),
        "additionalProperties": False,
    }


def _field_schema(one: DeclaredField, prefix: str) -> Schema:
    schema = _with_bounds(_type_schema(one.annotation, prefix), constraints(one.info.metadata))
    default = _field_default(one)
    if _accepts_single(one.annotation, one.info.metadata):
        listed = schema.get("anyOf", [schema])
        schema = {"anyOf": [*(member["items"] for member in listed if "items" in member), *listed]}
    # A default of null is omitted, because it is what a missing key means.
    return {
        **schema,
        **({"description": one.description} if one.description else {}),
        **({"default": default} if default is not None else {}),
    }


def _accepts_single(kind: Any, metadata: Iterable[Any]) -> bool:
    """Whether a field accepts a bare value as a list of one."""
    if get_origin(kind) is Annotated:
        kind, *inner = get_args(kind)
        metadata = (*metadata, *inner)
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else ()
    return any(isinstance(item, AcceptSingle) for item in metadata) or any(
        _accepts_single(member, ()) for member in members
    )


def _field_default(one: DeclaredField) -> Any:
    return None if one.required else dump_declaration(one.default)


def _type_schema(kind: Any, prefix: str) -> Schema:
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Declaration):
        return schema_ref(f"{prefix}{kind.__name__}")
    if origin is Annotated:
        return _with_bounds(_type_schema(inner[0], prefix), constraints(inner[1:]))
    if origin is Literal:
        return _literal_schema(inner)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_type_schema(member, prefix) for member in inner]}
    if origin is tuple and inner[-1] is Ellipsis:
        return {"type": "array", "items": _type_schema(inner[0], prefix)}
    if origin is tuple:
        items = [_type_schema(member, prefix) for member in inner]
        if all(item == items[0] for item in items):
            return {"type": "array", "items": items[0], "minItems": len(items), "maxItems": len(items)}
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin is dict:
        return _mapping_schema(inner[0], _type_schema(inner[1], prefix))
    return {} if kind is Any else {"type": _SCALAR_TYPES[kind]}


def _literal_schema(words: tuple[Any, ...]) -> Schema:
    (kind,) = {_SCALAR_TYPES[type(word)] for word in words}
    return {"type": kind, "const": words[0]} if kind != "string" else {"type": kind, "enum": list(words)}


def _mapping_schema(key: Any, value: Schema) -> Schema:
    """A mapping by name. If names have a pattern, others are forbidden."""
    pattern = _type_schema(key, "").get("pattern")
    if pattern is not None:
        return {"type": "object", "patternProperties": {pattern: value}, "additionalProperties": False}
    return {"type": "object", **({"additionalProperties": value} if value else {})}


def _with_bounds(schema: Schema, bounds: Mapping[str, Any]) -> Schema:
    """The schema with the bounds that apply to its type; a union passes them to its members."""
    if not bounds:
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [_with_bounds(member, bounds) for member in schema["anyOf"]]}
    names = {} if "enum" in schema else _BOUNDS.get(schema.get("type", ""), {})
    return {**schema, **{keyword: bounds[name] for name, keyword in names.items() if name in bounds}}


def subschemas(schema: Schema) -> Iterator[Schema]:
    """The schemas directly inside a schema."""
    for key in _SINGLE_SUBSCHEMA:
        if isinstance(schema.get(key), dict):
            yield schema[key]
    for key in _LISTED_SUBSCHEMAS:
        yield from schema.get(key, ())
    for key in _NAMED_SUBSCHEMAS:
        yield from (inner for inner in schema.get(key, {}).values() if isinstance(inner, dict))


def map_subschemas(schema: Schema, change: Any) -> Schema:
    """A schema with `change` applied to every schema directly inside it."""
    result: Schema = {}
    for key, value in schema.items():
        if key in _SINGLE_SUBSCHEMA and isinstance(value, dict):
            result[key] = change(value)
        elif key in _LISTED_SUBSCHEMAS:
            result[key] = [change(item) for item in value]
        elif key in _NAMED_SUBSCHEMAS:
            result[key] = {n: change(v) if isinstance(v, dict) else v for n, v in value.items()}
        else:
            result[key] = value
    return result


def schema_ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def union_schema(mappings: Iterable[Schema]) -> Schema:
    """A mapping that accepts the properties of all of these."""
    fields: dict[str, list[Schema]] = {}
    for mapping in mappings:
        for name, schema in mapping.get("properties", {}).items():
            alternatives = fields.setdefault(name, [])
            if all(_without_annotations(schema) != _without_annotations(other) for other in alternatives):
                alternatives.append(schema)
    return {
        "properties": {n: s[0] if len(s) == 1 else {"anyOf": s} for n, s in fields.items()},
        "additionalProperties": False,
    }


def _without_annotations(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key not in ANNOTATION_KEYWORDS}
