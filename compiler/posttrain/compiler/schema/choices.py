"""Mappings of one key: a source, a data step, a reward op, each with its parameters."""

from posttrain.compiler.schema.liberties import with_bare, with_singles
from posttrain.compiler.schema.models import Definitions, Schema, definitions, reference
from posttrain.spec.extension import Catalog, Extension, Kind

# The bounds stand apart from the properties: beside them, the YAML language server takes the key
# under the cursor for one too many, and offers nothing.
EXACTLY_ONE: Schema = {
    "minProperties": 1,
    "allOf": [{"maxProperties": 1}],
    "additionalProperties": False,
}


def choice(named: dict[str, Schema], description: str) -> Schema:
    """Exactly one of these keys, with its value."""
    return {
        "type": "object",
        "description": description,
        "properties": named,
        **EXACTLY_ONE,
    }


def extensions(kind: Kind, catalog: Catalog) -> dict[str, Extension]:
    found = {name: catalog.find(kind, name) for name in catalog.names(kind)}
    return {name: extension for name, extension in found.items() if extension is not None}


def parameters(kind: Kind, extension: Extension) -> Definitions:
    """The definition of an extension's parameters, `KIND.NAME`, and of the models in them."""
    name = f"{kind}.{extension.name}"
    found = definitions(extension.params, f"{name}.")
    own = with_singles(extension.params, found[f"{name}.{extension.params.__name__}"])
    made = {**own, "description": extension.summary}
    return {**found, name: with_bare(extension.params, made) if kind in ("source", "data") else made}


def open_choice(kind: Kind, catalog: Catalog) -> dict[str, Schema]:
    """Every extension of a kind by name, for `choice`."""
    return {name: reference(f"{kind}.{name}") for name in extensions(kind, catalog)}
