"""What a user may write, declared: classes whose fields carry their meaning, default and bounds.

Pydantic would take the same declarations, but to import it and to build our models of it costs as
much CPU time as all else that `recipe validate` does. A declaration here is a record, which costs
next to nothing to define; `reading` makes one of what a user wrote, and tells all that is wrong with it.
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
    """A field of a declaration. What it is for, how it is bounded, and how it may be written.

    `key` is how a recipe writes it where its name is a word of Python's. With `single`, one value may
    stand for a list of one. `check` raises ValueError for a value that does not do.
    """
    if isinstance(default, list | dict):  # each declaration gets its own
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
    """Base of all that is written in a recipe: frozen, strict, no key beyond those declared.

    A subclass made with `bare="NAME"` may also be written as that field's value alone.
    """

    bare: ClassVar[str | None] = None
    # Beside the fields, so that it counts in no comparison.
    __slots__ = ("_given",)

    def __init_subclass__(cls, bare: str | None = None) -> None:
        super().__init_subclass__()
        cls.bare = bare if bare is not None else cls.bare
        record(kw_only=True)(cls)

    def check(self) -> None:
        """Raises ValueError for values that are right each by itself, and do not go together."""


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
    """The fields of a declaration by name, those of its bases first."""
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


def construct(model: type[DeclarationT], given: Mapping[str, Any]) -> DeclarationT:
    """A declaration of these fields, which remembers that they were given."""
    declaration = model(**given)
    object.__setattr__(declaration, "_given", frozenset(given))
    return declaration


def is_explicitly_set(declaration: Declaration, name: str) -> bool:
    """Whether the recipe wrote this field itself."""
    return name in getattr(declaration, "_given", ())


def keys_of(model: type[Declaration]) -> list[str]:
    """The keys that a mapping of this declaration may hold."""
    return [one.key for one in fields_of(model).values()]


def dump_declaration(value: Any, *, without: Iterable[str] = ()) -> Any:
    """A declaration as a recipe writes it, in plain values, with every default filled in."""
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
