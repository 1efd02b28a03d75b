"""Base classes of everything a user can write: fields with a description, a default and bounds.

Pydantic could hold the same declarations, but importing it and building the models takes as much CPU
time as the rest of `recipe validate`. A declaration here is a record, which costs almost nothing to
define; `validation` builds one from user input and reports every error in it.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

from posttrain.spec.field_limits import Limits
from posttrain.spec.record import record


def field(
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    key: str | None = None,
    description: str = "",
    single: bool = False,
    check: Callable[[Any], object] | None = None,
    **limits: Any,
) -> Any:
    """A field of a declaration, with its description, its bounds and its spelling in recipes.

    `key` is the recipe key if the field's name is a Python keyword. With `single`, a bare value is
    accepted as a list of one. `check` raises ValueError for an invalid value.
    """
    if isinstance(default, list | dict):  # each declaration gets its own copy
        default, default_factory = dataclasses.MISSING, cast(list[Any], default).copy
    about = {
        "key": key,
        "description": description,
        "single": single,
        "check": check,
        "limits": Limits(**limits) if limits else None,
    }
    return dataclasses.field(default=default, default_factory=default_factory, metadata=about)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Declaration:
    """Base of everything in a recipe: frozen and strict, without undeclared keys.

    A subclass with `bare="NAME"` also accepts the value of that field instead of a mapping.
    """

    bare: ClassVar[str | None] = None
    # Not a field, so comparisons ignore it.
    __slots__ = ("_given",)

    def __init_subclass__(cls, bare: str | None = None) -> None:
        super().__init_subclass__()
        cls.bare = bare if bare is not None else cls.bare
        record(kw_only=True)(cls)

    def check(self) -> None:
        """Raise ValueError for values that are valid individually but not in combination."""


DeclarationT = TypeVar("DeclarationT", bound=Declaration)


@record(kw_only=True)
class FieldInfo:
    """A field as its class declares it."""

    name: str
    key: str
    annotation: Any
    description: str
    limits: Limits | None
    single: bool
    check: Callable[[Any], object] | None
    default: Any
    default_factory: Any

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING and self.default_factory is dataclasses.MISSING


@cache
def fields_of(model: type[Declaration]) -> Mapping[str, FieldInfo]:
    """The fields of a declaration by name, fields of its bases first."""
    return {one.name: _field_info(one) for one in dataclasses.fields(cast(Any, model))}


def _field_info(one: "dataclasses.Field[Any]") -> FieldInfo:
    about = one.metadata
    return FieldInfo(
        name=one.name,
        key=about.get("key") or one.name,
        annotation=one.type,
        description=about.get("description", ""),
        limits=about.get("limits"),
        single=about.get("single", False),
        check=about.get("check"),
        default=one.default,
        default_factory=one.default_factory,
    )


def construct(model: type[DeclarationT], values: Mapping[str, Any]) -> DeclarationT:
    """Build a declaration that remembers which fields were set explicitly."""
    declaration = model(**values)
    object.__setattr__(declaration, "_given", frozenset(values))
    return declaration


def is_explicitly_set(declaration: Declaration, name: str) -> bool:
    """Whether the recipe sets this field explicitly."""
    return name in getattr(declaration, "_given", ())


def keys_of(model: type[Declaration]) -> list[str]:
    """The keys that a mapping of this declaration accepts."""
    return [one.key for one in fields_of(model).values()]


def dump_declaration(value: Any, *, without: Iterable[str] = ()) -> Any:
    """A declaration as plain values under recipe keys, with every default filled in."""
    if isinstance(value, Declaration):
        left_out = frozenset(without)
        return {
            one.key: dump_declaration(getattr(value, one.name))
            for one in fields_of(type(value)).values()
            if one.name not in left_out
        }
    if isinstance(value, Mapping):
        return {name: dump_declaration(inner) for name, inner in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list | tuple):
        return [dump_declaration(inner) for inner in cast(Sequence[Any], value)]
    return value
