"""The JSON Schema (2020-12) of a document. Every field is required, because files have every field."""

from typing import Any, cast

from pydantic.json_schema import GenerateJsonSchema

from posttrain.spec.document import Document

Schema = dict[str, Any]


def document_schema(model: type[Document]) -> Schema:
    """The JSON Schema of a document."""
    schema = model.model_json_schema(mode="serialization")
    return {"$schema": GenerateJsonSchema.schema_dialect, **_without_titles(schema)}


def _without_titles(schema: Schema) -> Schema:
    """The schema without pydantic's titles, which repeat the names of the fields."""
    found = {key: _convert(key, value) for key, value in schema.items() if key != "title"}
    # Pydantic rejects a name that does not match the pattern of the names of a mapping.
    return {"additionalProperties": False, **found} if "patternProperties" in found else found


def _convert(key: str, value: Any) -> Any:
    if key in ("properties", "$defs"):
        named = cast(dict[str, Schema], value)
        return {name: _without_titles(inner) for name, inner in named.items()}
    if isinstance(value, dict):
        return _without_titles(cast(Schema, value))
    if isinstance(value, list):
        items = cast(list[Any], value)
        return [_without_titles(cast(Schema, item)) if isinstance(item, dict) else item for item in items]
    return value
