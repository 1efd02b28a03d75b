"""Mappings of one key: a source, a data step, a reward op, each with its parameters."""

from posttrain.compiler.schema.schema_declarations import (
    ANNOTATION_KEYWORDS,
    Definitions,
    Schema,
    declaration_definitions,
    schema_ref,
)
from posttrain.spec.extension import Catalog, Extension, ExtensionKind

# The bounds stand apart from the properties: beside them, the YAML language server takes the key
# under the cursor for one too many, and offers nothing.
EXACTLY_ONE: Schema = {
    "minProperties": 1,
    "allOf": [{"maxProperties": 1}],
    "additionalProperties": False,
}


def single_key_schema(named: dict[str, Schema], description: str) -> Schema:
    """Exactly one of these keys, with its value."""
    return {
        "type": "object",
        "description": description,
        "properties": named,
        **EXACTLY_ONE,
    }


def extensions_of_kind(kind: ExtensionKind, catalog: Catalog) -> dict[str, Extension]:
    found = {name: catalog.find(kind, name) for name in catalog.names(kind)}
    return {name: extension for name, extension in found.items() if extension is not None}


def parameter_definitions(kind: ExtensionKind, extension: Extension) -> Definitions:
    """The definition of an extension's parameters, `KIND.NAME`, and of the models in them."""
    name = f"{kind}.{extension.name}"
    found = declaration_definitions(extension.params, f"{name}.")
    result = {**found[f"{name}.{extension.params.__name__}"], "description": extension.summary}
    return {**found, name: _allow_shorthand(result, extension.params.bare)}


def _allow_shorthand(schema: Schema, field: str | None) -> Schema:
    """The definition, or the value of the one field that may stand for the whole."""
    if field is None:
        return schema
    short = {
        key: value for key, value in schema["properties"][field].items() if key not in ANNOTATION_KEYWORDS
    }
    shorthand = {**short, "description": "Short for the mapping."}
    return {"description": schema["description"], "anyOf": [schema, shorthand]}


def extension_references(kind: ExtensionKind, catalog: Catalog) -> dict[str, Schema]:
    """Every extension of a kind by name, for `choice`."""
    return {name: schema_ref(f"{kind}.{name}") for name in extensions_of_kind(kind, catalog)}
