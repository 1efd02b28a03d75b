"""Base class of everything a user can write: pydantic models whose fields have a description.

Models are built on first use (`defer_build`), so that a recipe pays only for the declarations that it
contains. `validation` reports every error of user input in words.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, Self

import annotated_types
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema, to_jsonable_python

from posttrain.spec.record import record


class Declaration(BaseModel):
    """Base of everything in a recipe: frozen and strict, without undeclared keys.

    A subclass with `bare="NAME"` also accepts the value of that field instead of a mapping.
    """

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        defer_build=True,
        # Recipes use aliases; plans and programs use the names of fields.
        validate_by_alias=True,
        validate_by_name=True,
        # A value can be a secret that was written out by mistake.
        hide_input_in_errors=True,
        protected_namespaces=(),
    )
    bare: ClassVar[str | None] = None

    def __init_subclass__(cls, bare: str | None = None, **config: Any) -> None:
        super().__init_subclass__(**config)
        cls.bare = bare if bare is not None else cls.bare

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        if cls.bare is None:
            return schema
        return core_schema.no_info_before_validator_function(cls.expand_bare, schema)

    @classmethod
    def expand_bare(cls, value: Any) -> Any:
        """The mapping that a bare value stands for."""
        if cls.bare is None or isinstance(value, Mapping | BaseModel):
            return value
        return {cls.bare: value}

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check()
        return self

    def check(self) -> None:
        """Raise ValueError for values that are valid individually but not in combination."""

    def refuse_without_effect(self, name: str, reason: str) -> None:
        """Refuse a value of a field that another field disables. Plans contain every default, so a default
        that the user wrote is accepted."""
        if getattr(self, name) != type(self).model_fields[name].default:
            raise ValueError(f"{name} has no effect {reason}")


@record(kw_only=True)
class DeclaredField:
    """A field of a declaration, with its key in recipes."""

    name: str
    key: str
    info: FieldInfo

    @property
    def annotation(self) -> Any:
        return self.info.annotation

    @property
    def description(self) -> str:
        return self.info.description or ""

    @property
    def required(self) -> bool:
        return self.info.is_required()

    @property
    def default(self) -> Any:
        """The default value. Only for fields that are not required."""
        return self.info.get_default(call_default_factory=True, validated_data={})


@cache
def fields_of(model: type[Declaration]) -> Mapping[str, DeclaredField]:
    """The fields of a declaration by name, fields of its bases first."""
    return {
        name: DeclaredField(name=name, key=info.alias or name, info=info)
        for name, info in model.model_fields.items()
    }


def constraints(metadata: Iterable[Any]) -> dict[str, Any]:
    """The bounds in the metadata of a field or an annotated type: ge, max_length, pattern and others."""
    found: dict[str, Any] = {}
    for item in metadata:
        if isinstance(item, FieldInfo):
            found |= constraints(item.metadata)
        elif isinstance(item, annotated_types.GroupedMetadata):
            found |= constraints(item)
        elif isinstance(item, _BOUNDS):
            found |= {name: getattr(item, name) for name in item.__slots__}
        elif hasattr(item, "pattern"):
            found["pattern"] = item.pattern
    return found


_BOUNDS = (
    annotated_types.Ge,
    annotated_types.Gt,
    annotated_types.Le,
    annotated_types.Lt,
    annotated_types.MinLen,
    annotated_types.MaxLen,
)


def is_explicitly_set(declaration: Declaration, name: str) -> bool:
    """Whether the recipe sets this field explicitly."""
    return name in declaration.model_fields_set


def keys_of(model: type[Declaration]) -> list[str]:
    """The keys that a mapping of this declaration accepts."""
    return [one.key for one in fields_of(model).values()]


def dump_declaration(value: Any, *, without: Iterable[str] = ()) -> Any:
    """A declaration as plain values under recipe keys, with every default filled in."""
    return to_jsonable_python(value, by_alias=True, exclude=set(without) or None)
