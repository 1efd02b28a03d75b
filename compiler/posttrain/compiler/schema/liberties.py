"""Shorter forms that a model's own validators take, which its fields do not tell: they are tried out.

Such a validator runs before the fields are looked at: one value for a list of one, or a bare value
for the whole mapping.
"""

from typing import Any

from pydantic import BaseModel, ValidationError

from posttrain.compiler.schema.models import Schema

_BARE: tuple[tuple[str, Any], ...] = (
    ("string", "x"),
    ("number", 1),
    ("array", ["x"]),
    ("array", [{"x": "x"}]),
)
_SINGLE = {"string": "x", "integer": 1, "number": 1.0}


def with_singles(model: type[BaseModel], schema: Schema) -> Schema:
    """The definition of a model, with its lists that one value may stand for."""
    fields = schema.get("properties", {})
    return {**schema, "properties": {name: _single(model, name, held) for name, held in fields.items()}}


def with_bare(model: type[BaseModel], schema: Schema) -> Schema:
    """The definition of a model, or of the bare value that may stand for it."""
    types = list(dict.fromkeys(type for type, value in _BARE if not _refused(model, value, ())))
    if not types:
        return schema
    short = {"type": types, "description": "Short for the mapping."}
    return {"description": schema.get("description", ""), "anyOf": [schema, short]}


def _single(model: type[BaseModel], name: str, schema: Schema) -> Schema:
    items = schema.get("items", {})
    kind = items.get("type")
    if (
        schema.get("type") != "array"
        or kind not in _SINGLE
        or _refused(model, {name: _SINGLE[kind]}, (name,))
    ):
        return schema
    about = {key: schema[key] for key in ("description", "default") if key in schema}
    listed = {key: value for key, value in schema.items() if key not in about}
    return {**about, "anyOf": [items, listed]}


def _refused(model: type[BaseModel], value: Any, place: tuple[str, ...]) -> bool:
    """Whether a value has the wrong type for its place; what else is wrong does not count."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        found = [one for one in error.errors(include_url=False) if one["type"].endswith("_type")]
        return any(one["loc"] == place or one["input"] == value for one in found)
    except Exception:  # a validator that trips over the value does not take it
        return True
    return False
