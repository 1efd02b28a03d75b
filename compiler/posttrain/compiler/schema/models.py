"""A declared model as JSON Schema: pydantic's own, made plain.

Definitions are named by their class, those of an extension also by the extension. What stays open
in a model (`Any`, names that only a catalog knows) is closed by `language`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

Schema = dict[str, Any]
Definitions = dict[str, Schema]

_CHOICE = re.compile(r"\^\(((?:\w+\|)+\w+)\)\$\Z")
# What describes a value, and does not restrict it.
SAYS = ("description", "default", "examples")
# Keywords that hold one schema, several in a list, or several by name.
_ONE = ("items", "additionalProperties", "propertyNames", "not", "if", "then", "else", "contains")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs", "dependentSchemas")


def definitions(model: type[BaseModel], prefix: str = "") -> Definitions:
    """The definition of a model and of all models in it; the model's own comes first."""
    template = f"#/$defs/{prefix}{{model}}"
    made = model.model_json_schema(
        mode="validation", by_alias=True, ref_template=template, schema_generator=_Generator
    )
    inner = made.pop("$defs", {})
    # A model that holds itself stands among the inner ones, and is only referred to.
    own = {model.__name__: made} if "$ref" not in made else {}
    return {f"{prefix}{name}": _plain(schema) for name, schema in {**own, **inner}.items()}


class _Generator(GenerateJsonSchema):
    """Pydantic's own generator leaves out what a factory makes."""

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        factory = schema.get("default_factory")
        if factory is not None and not schema.get("default_factory_takes_data"):
            return cast(Callable[[], Any], factory)()
        return super().get_default_value(schema)


def parts(schema: Schema) -> Iterator[Schema]:
    """The schemas directly inside a schema."""
    for key in _ONE:
        if isinstance(schema.get(key), dict):
            yield schema[key]
    for key in _LISTED:
        yield from schema.get(key, ())
    for key in _NAMED:
        yield from (inner for inner in schema.get(key, {}).values() if isinstance(inner, dict))


def mapped(schema: Schema, change: Any) -> Schema:
    """A schema with `change` made to every schema directly inside it."""
    made: Schema = {}
    for key, value in schema.items():
        if key in _ONE and isinstance(value, dict):
            made[key] = change(value)
        elif key in _LISTED:
            made[key] = [change(item) for item in value]
        elif key in _NAMED:
            made[key] = {n: change(v) if isinstance(v, dict) else v for n, v in value.items()}
        else:
            made[key] = value
    return made


def reference(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def union(mappings: Iterable[Schema]) -> Schema:
    """A mapping that may hold what any of these may hold."""
    fields: dict[str, list[Schema]] = {}
    for mapping in mappings:
        for name, schema in mapping.get("properties", {}).items():
            alternatives = fields.setdefault(name, [])
            if all(_demands(schema) != _demands(other) for other in alternatives):
                alternatives.append(schema)
    return {
        "properties": {n: s[0] if len(s) == 1 else {"anyOf": s} for n, s in fields.items()},
        "additionalProperties": False,
    }


def _demands(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key not in SAYS}


def _plain(schema: Schema) -> Schema:
    made = mapped(schema, _plain)
    made.pop("title", None)
    if "default" in made and made["default"] is None:
        del made["default"]  # nothing is what a key that is left out means anyway
    if isinstance(made.get("description"), str):
        made["description"] = " ".join(made["description"].split())
    if "const" in made and isinstance(made["const"], str):
        made["enum"] = [made.pop("const")]
    choice = _CHOICE.match(made.get("pattern", ""))
    if choice:
        made["enum"] = choice[1].split("|")
        del made["pattern"]
    if made.get("additionalProperties") is True:
        del made["additionalProperties"]
    if "patternProperties" in made:  # names that fit the pattern, and no others
        made.setdefault("additionalProperties", False)
    return made
