"""Generates the JSON Schema (2020-12) of a plan from the classes of `plan`.

Every field is required, because a plan contains every field.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from posttrain.spec.plan import FORMAT, Plan

Schema = dict[str, Any]
_SCALAR_TYPES: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def plan_schema() -> Schema:
    """The JSON Schema of a plan."""
    defined: dict[str, Schema] = {}
    _define(Plan, defined)
    defined["Plan"]["properties"]["format"]["const"] = FORMAT
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/Plan",
        "$defs": dict(sorted(defined.items())),
    }


def _define(cls: type[Any], defined: dict[str, Schema]) -> None:
    """Add the definition of a class and of all classes in its fields."""
    defined[cls.__name__] = {}  # a placeholder, so that recursion ends
    hints = get_type_hints(cls, include_extras=True)
    names = [item.name for item in fields(cls)]
    defined[cls.__name__] = {
        "type": "object",
        "description": " ".join((cls.__doc__ or "").split()),
        "properties": {name: _schema(hints[name], defined) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def _schema(hint: Any, defined: dict[str, Schema]) -> Schema:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return {"description": inner[1], **_schema(inner[0], defined)}
    if origin is UnionType:
        return _any_of([_schema(item, defined) for item in inner])
    if origin is tuple:
        return {"type": "array", "items": _schema(inner[0], defined)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(inner[1], defined)}
    if is_dataclass(hint):
        assert isinstance(hint, type), "a field's type is a class, not a value"
        if hint.__name__ not in defined:
            _define(hint, defined)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {} if hint is Any else {"type": _SCALAR_TYPES[hint]}


def _any_of(choices: list[Schema]) -> Schema:
    """One schema for several; a list of types if all are plain types."""
    if all(choice.keys() == {"type"} for choice in choices):
        return {"type": [choice["type"] for choice in choices]}
    return {"anyOf": choices}
