"""Schemas of mappings with exactly one key: sources, data steps and reward ops with their parameters."""

from posttrain.compiler.schema.schema_declarations import (
    ANNOTATION_KEYWORDS,
    Definitions,
    Schema,
    declaration_definitions,
    schema_ref,
)
from posttrain.spec.extension import Catalog, Extension, ExtensionKind

# `maxProperties` is inside `allOf`: next to `properties`, the YAML language server counts the key under the
# cursor as an extra key and offers no completions.
EXACTLY_ONE: Schema = {
    "minProperties": 1,
    "allOf": [{"maxProperties": 1}],
    "additionalProperties": False,
}


def single_key_schema(named: dict[str, Schema], description: str) -> Schema:
    """A mapping with exactly one of these keys."""
    return {
        "type": "object",
        "description": description,
        "properties": named,
        **EXACTLY_ONE,
    }


def extensions_of_kind(kind: ExtensionKind, catalog: Catalog) -> dict[str, Extension]:
    extensions = {name: catalog.find(kind, name) for name in catalog.names(kind)}
    return {name: extension for name, extension in extensions.items() if extension is not None}


def parameter_definitions(kind: ExtensionKind, extension: Extension) -> Definitions:
    """The definition of an extension's parameters, `KIND.NAME`, and of the declarations in them."""
    name = f"{kind}.{extension.name}"
    found = declaration_definitions(extension.params, f"{name}.")
    result = {**found[f"{name}.{extension.params.__name__}"], "description": extension.summary}
    return {**found, name: _allow_shorthand(result, extension.params.bare)}


def _allow_shorthand(schema: Schema, field: str | None) -> Schema:
    """The schema, or alternatively the value of its shorthand field."""
    if field is None:
        return schema
    short = {
        key: value for key, value in schema["properties"][field].items() if key not in ANNOTATION_KEYWORDS
    }
    shorthand = {**short, "description": "Short for the mapping."}
    return {"description": schema["description"], "anyOf": [schema, shorthand]}


def extension_references(kind: ExtensionKind, catalog: Catalog) -> dict[str, Schema]:
    """References to all extensions of a kind by name, for `single_key_schema`."""
    return {name: schema_ref(f"{kind}.{name}") for name in extensions_of_kind(kind, catalog)}
