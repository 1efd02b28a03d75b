"""`recipe schema`: the JSON Schema of a recipe file, for editors and other tools."""

from posttrain.compiler.schema.examples import with_examples
from posttrain.compiler.schema.language import language
from posttrain.compiler.schema.models import Definitions, Schema, parts, reference
from posttrain.compiler.schema.partial import PREFIX, partial_definitions
from posttrain.compiler.schema.variables import loosened
from posttrain.spec.extension import Catalog

_PATH: Schema = {"type": "string", "description": "A recipe file, relative to this one."}
_SCALAR: Schema = {"type": ["string", "number", "boolean", "null"]}
_LEG: Schema = {"type": "object", "additionalProperties": _SCALAR}
_LEGS: Schema = {"anyOf": [_LEG, {"type": "array", "items": _LEG}]}
# Sections that are gone once the recipe is one tree: no declared model holds them.
OVERLAYS: dict[str, Schema] = {
    "extends": {
        "description": "Recipe files that this one is laid over.",
        "anyOf": [_PATH, {"type": "array", "items": _PATH}],
    },
    "matrix": {
        "type": "object",
        "description": "Lists of values by name; ${matrix.NAME} is one of them in each leg of the plan.",
        "properties": {
            "include": {"description": "Legs to add, each with a value for every name.", **_LEGS},
            "exclude": {"description": "Legs to drop: those that agree with one of these.", **_LEGS},
        },
        "additionalProperties": {"type": "array", "items": _SCALAR, "minItems": 1},
    },
    "profiles": {
        "type": "object",
        "description": "Overlays by name, chosen with --profile NAME.",
        "additionalProperties": reference("profile"),
    },
}


def recipe_schema(catalog: Catalog, whole: bool = True) -> Schema:
    """The schema of a recipe file. One that extends others may leave out what they hold.

    With `whole` false: of a file that others extend, in which nothing is required.
    """
    found = with_examples(language(catalog))
    partial = partial_definitions(found)
    profile = partial[f"{PREFIX}Recipe"]
    profile = {**profile, "properties": {**profile["properties"], "matrix": _or_none(OVERLAYS["matrix"])}}
    defined = {**found, **partial, "profile": profile}
    for name in ("Recipe", f"{PREFIX}Recipe"):
        declared = defined[name]
        defined[name] = {**declared, "properties": {**declared["properties"], **OVERLAYS}}
    overlay = reference(f"{PREFIX}Recipe")
    either = {"if": {"required": ["extends"]}, "then": overlay, "else": reference("Recipe")}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "description": "A posttrain recipe.",
        "type": "object",
        **(either if whole else overlay),
        "$defs": {name: loosened(schema) for name, schema in sorted(_reached(defined).items())},
    }


def _or_none(schema: Schema) -> Schema:
    """What a profile may also take away."""
    return {**schema, "type": [schema["type"], "null"]}


def _reached(defined: Definitions) -> Definitions:
    """Those definitions that a recipe or an overlay leads to."""
    kept: Definitions = {}
    waiting = ["Recipe", f"{PREFIX}Recipe"]
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept[name] = defined[name]
            waiting += _named(defined[name])
    return kept


def _named(schema: Schema) -> list[str]:
    own = [schema["$ref"].removeprefix("#/$defs/")] if "$ref" in schema else []
    return [*own, *(name for part in parts(schema) for name in _named(part))]
