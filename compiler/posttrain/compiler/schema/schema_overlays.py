"""Definitions of overlays: profiles, and recipes that extend others. They have no required keys."""

from collections.abc import Set

from posttrain.compiler.schema.schema_declarations import (
    ANNOTATION_KEYWORDS,
    Definitions,
    Schema,
    map_subschemas,
    schema_ref,
    union_schema,
)
from posttrain.spec.recipe import VERBS

OVERLAY_PREFIX = "partial."


def overlay_definitions(found: Definitions) -> Definitions:
    """`partial.NAME` for every definition with requirements, or with references to such definitions."""
    demanding = _definitions_with_requirements(found)
    result = {f"{OVERLAY_PREFIX}{name}": _overlay_schema(found[name], demanding) for name in demanding}
    result[f"{OVERLAY_PREFIX}stage"] = _overlay_stage(found["stage"], result)
    return result


def _definitions_with_requirements(found: Definitions) -> set[str]:
    """The definitions that differ in overlays."""
    names = {name for name, schema in found.items() if _overlay_schema(schema, set()) != schema} | {"stage"}
    while True:
        more = {name for name, schema in found.items() if _overlay_schema(schema, names) != schema}
        if more <= names:
            return names
        names |= more


def _overlay_schema(schema: Schema, demanding: Set[str]) -> Schema:
    """The schema of an overlay mapping. Lists are not merged, so their items keep all requirements."""

    def within(inner: Schema) -> Schema:
        return _overlay_schema(inner, demanding)

    unchanged = {key: schema[key] for key in ("if", "items") if key in schema}
    result = {**map_subschemas(schema, within), **unchanged}
    # An overlay can remove one choice and add another.
    for demand in ("required", "minProperties", "maxProperties"):
        result.pop(demand, None)
    for named in ("properties", "patternProperties"):
        if named in result:
            result[named] = {key: _nullable(inner) for key, inner in result[named].items()}
    if isinstance(result.get("additionalProperties"), dict):
        result["additionalProperties"] = _nullable(result["additionalProperties"])
    name = result.get("$ref", "").removeprefix("#/$defs/")
    return {**result, **schema_ref(f"{OVERLAY_PREFIX}{name}")} if name in demanding else result


def _nullable(schema: Schema | bool) -> Schema | bool:
    """The schema, which also accepts a null: it removes the key of the base."""
    if not isinstance(schema, dict) or "const" in schema or "if" in schema:
        return schema
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]} if schema["type"] != "null" else schema
    if isinstance(schema.get("type"), list) and "enum" not in schema:
        return {**schema, "type": list(dict.fromkeys([*schema["type"], "null"]))}
    about = {key: schema[key] for key in ANNOTATION_KEYWORDS if key in schema}
    rest = {key: value for key, value in schema.items() if key not in about}
    return {**about, "anyOf": [rest, {"type": "null"}]} if rest else schema


def _overlay_stage(whole: Schema, result: Definitions) -> Schema:
    """The schema of a stage in an overlay. Without a verb, it accepts the keys of all verbs."""
    own = {verb: f"{OVERLAY_PREFIX}{model.__name__}" for verb, model in VERBS.items()}
    then = [{"if": {"required": [verb]}, "then": schema_ref(name)} for verb, name in own.items()]
    either = union_schema(result[name] for name in own.values())
    either["properties"]["params"] = schema_ref(
        f"{OVERLAY_PREFIX}params" if f"{OVERLAY_PREFIX}params" in result else "params"
    )
    return {**whole, "then": {"allOf": then}, "else": either}
