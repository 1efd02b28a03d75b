"""Frozen data classes that are fast to define.

`@dataclass` generates and compiles six methods for every class, which takes half a millisecond. The
compiler has a hundred such classes and its commands must start fast, so records share one set of
methods. `field`, `fields`, `replace`, `asdict` and type checkers treat them as dataclasses. Creating
an instance takes 50% longer: classes with thousands of instances, such as tree nodes, stay dataclasses
with slots.
"""

import copy
import dataclasses
from collections.abc import Callable, Mapping
from inspect import get_annotations
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform, get_origin, overload

T = TypeVar("T")
_FIELDS = "__dataclass_fields__"
_MISSING: Any = object()
_SCALARS = frozenset((str, int, float, bool, type(None)))


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, kw_only: bool) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: type[Any] | None = None, /, *, kw_only: bool = False) -> Any:
    """Turn a class with annotated fields into a frozen record; `kw_only` forbids positional arguments."""

    def decorate(target: type[Any]) -> type[Any]:
        return _record(target, kw_only)

    return decorate if cls is None else decorate(cls)


def to_builtins(value: Any) -> Any:
    """Convert records to mappings, recursively. Faster than `asdict`, which copies every value."""
    kind = type(value)
    if kind in _SCALARS:  # most values
        return value
    if kind is dict:
        return {name: to_builtins(inner) for name, inner in value.items()}
    if hasattr(kind, _FIELDS):
        return {name: to_builtins(inner) for name, inner in vars(value).items()}
    if isinstance(value, Mapping):
        return {name: to_builtins(inner) for name, inner in cast(Mapping[str, Any], value).items()}
    return (
        [to_builtins(inner) for inner in cast(list[Any], value)] if isinstance(value, list | tuple) else value
    )


@dataclasses.dataclass
class _FieldTemplate:
    """Provides the `Field` object that the fields of records are copied from."""

    it: int = dataclasses.field(default=0)


def _record(cls: type[Any], kw_only: bool) -> type[Any]:
    found: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        found |= base.__dict__.get(_FIELDS, {})
    for name, kind in get_annotations(cls).items():
        if get_origin(kind) is not ClassVar:
            found[name] = _field(cls, name, kind)
    setattr(cls, _FIELDS, found)
    cls.__match_args__ = () if kw_only else tuple(found)
    cls.__init__ = _init(found, kw_only)
    for name, method in _SHARED_METHODS.items():
        if cls.__dict__.get(name) is None:
            setattr(cls, name, method)
    return cls


def _field(cls: type[Any], name: str, kind: Any) -> dataclasses.Field[Any]:
    given = cls.__dict__.get(name, dataclasses.MISSING)
    template = copy.copy(dataclasses.fields(_FieldTemplate)[0])
    template.name, template.type, template.default = name, kind, given
    if isinstance(given, dataclasses.Field):
        template.default, template.default_factory = given.default, given.default_factory
        template.metadata = given.metadata
        delattr(cls, name)  # like dataclasses: a Field object is not a default value
    return template


def _init(found: Mapping[str, dataclasses.Field[Any]], kw_only: bool) -> Callable[..., None]:
    names = tuple(found)
    # All names from the start, so that equal records have their fields in the same order.
    ready = {n: _MISSING if f.default is dataclasses.MISSING else f.default for n, f in found.items()}
    template: dict[str, Any] = {
        name: one.default_factory
        for name, one in found.items()
        if one.default_factory is not dataclasses.MISSING
    }
    needed = tuple(name for name, value in ready.items() if value is _MISSING and name not in template)
    count, in_order = len(names), 0 if kw_only else len(names)

    def start(self: Any, *given: Any, **named: Any) -> None:
        values = self.__dict__
        values.update(ready)
        if given:
            values.update(zip(names, given, strict=False))
        values.update(named)
        for name, make in template.items():
            if values[name] is _MISSING:
                values[name] = make()
        for name in needed:
            if values[name] is _MISSING:
                break
        else:
            if len(values) == count and len(given) <= in_order:
                return
        missing = [name for name in needed if values[name] is _MISSING]
        raise TypeError(
            _init_error_message(type(self).__name__, names, missing, len(given) > in_order, values)
        )

    return start


def _init_error_message(
    cls: str, names: tuple[str, ...], missing: list[str], too_many: bool, values: Mapping[str, Any]
) -> str:
    if too_many:
        return f"{cls} takes keyword arguments only"
    unknown = [name for name in values if name not in names]
    return f"{cls} has no field {unknown[0]}" if unknown else f"{cls} is missing {', '.join(missing)}"


def _setattr(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _eq(self: Any, other: Any) -> bool:
    return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash((type(self), *self.__dict__.values()))


def _repr(self: Any) -> str:
    inner = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
    return f"{type(self).__qualname__}({inner})"


_SHARED_METHODS: Mapping[str, Callable[..., Any]] = {
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
}
