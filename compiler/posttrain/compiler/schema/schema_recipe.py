"""The JSON Schema of a recipe file, which `recipe schema` prints for editors and other tools."""

from posttrain.compiler.schema.schema_declarations import Definitions, Schema, schema_ref, subschemas
from posttrain.compiler.schema.schema_examples import with_examples
from posttrain.compiler.schema.schema_language import language_definitions
from posttrain.compiler.schema.schema_overlays import OVERLAY_PREFIX, overlay_definitions
from posttrain.compiler.schema.schema_variables import allow_variables
from posttrain.spec.extension import Catalog

_PATH_SCHEMA: Schema = {"type": "string", "description": "Recipe file, relative to this one."}
_SCALAR_SCHEMA: Schema = {"type": ["string", "number", "boolean", "null"]}
_LEG_SCHEMA: Schema = {"type": "object", "additionalProperties": _SCALAR_SCHEMA}
_LEGS_SCHEMA: Schema = {"anyOf": [_LEG_SCHEMA, {"type": "array", "items": _LEG_SCHEMA}]}
# Sections that disappear when the recipe is expanded, so no declaration contains them.
OVERLAY_SECTIONS: dict[str, Schema] = {
    "extends": {
        "description": "Recipe files to merge this one over.",
        "anyOf": [_PATH_SCHEMA, {"type": "array", "items": _PATH_SCHEMA}],
    },
    "matrix": {
        "type": "object",
        "description": "Lists of values by name. Each combination is a leg of the plan, in which"
        " ${matrix.NAME} is its value.",
        "properties": {
            "include": {"description": "Legs to add, each with a value for every name.", **_LEGS_SCHEMA},
            "exclude": {"description": "Legs to drop: those that match one of these.", **_LEGS_SCHEMA},
        },
        "additionalProperties": {"type": "array", "items": _SCALAR_SCHEMA, "minItems": 1},
    },
    "profiles": {
        "type": "object",
        "description": "Overlays by name, chosen with --profile NAME.",
        "additionalProperties": schema_ref("profile"),
    },
}


def recipe_schema(catalog: Catalog, whole: bool = True) -> Schema:
    """The schema of a recipe file. With `extends`, no key is required.

    With `whole` false, the schema is for a file that others extend: no key is required either.
    """
    found = with_examples(language_definitions(catalog))
    partial = overlay_definitions(found)
    profile = partial[f"{OVERLAY_PREFIX}Recipe"]
    profile = {
        **profile,
        "properties": {**profile["properties"], "matrix": _nullable(OVERLAY_SECTIONS["matrix"])},
    }
    defined = {**found, **partial, "profile": profile}
    for name in ("Recipe", f"{OVERLAY_PREFIX}Recipe"):
        declared = defined[name]
        defined[name] = {**declared, "properties": {**declared["properties"], **OVERLAY_SECTIONS}}
    overlay = schema_ref(f"{OVERLAY_PREFIX}Recipe")
    either = {"if": {"required": ["extends"]}, "then": overlay, "else": schema_ref("Recipe")}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "description": "A posttrain recipe.",
        "type": "object",
        **(either if whole else overlay),
        "$defs": {
            name: allow_variables(schema) for name, schema in sorted(_reachable_definitions(defined).items())
        },
    }


def _nullable(schema: Schema) -> Schema:
    """The schema, which also accepts a null: a profile can remove the section."""
    return {**schema, "type": [schema["type"], "null"]}


def _reachable_definitions(defined: Definitions) -> Definitions:
    """The definitions that a recipe or an overlay refers to, directly or indirectly."""
    reachable: Definitions = {}
    waiting = ["Recipe", f"{OVERLAY_PREFIX}Recipe"]
    while waiting:
        name = waiting.pop()
        if name not in reachable:
            reachable[name] = defined[name]
            waiting += _referenced_names(defined[name])
    return reachable


def _referenced_names(schema: Schema) -> list[str]:
    own = [schema["$ref"].removeprefix("#/$defs/")] if "$ref" in schema else []
    return [*own, *(name for part in subschemas(schema) for name in _referenced_names(part))]
