"""Frozen plain data whose classes cost next to nothing to define.

`@dataclass` writes and compiles six methods for every class, which takes half a millisecond. The
compiler has a hundred such classes and a command that should answer before people notice, so they
share one set of methods instead. To a type checker they are dataclasses. Making one takes half as
long again: what is made by the thousand, such as the nodes of a tree, stays a dataclass with slots.
"""

from collections.abc import Callable, Mapping
from inspect import get_annotations
from typing import Any, Generic, TypeVar, dataclass_transform, overload

T = TypeVar("T")
_FIELDS = "__fields__"
_ABSENT: Any = object()


class _Made(Generic[T]):
    """A default that is made anew for each record."""

    def __init__(self, make: Callable[[], T]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], T]) -> T:
    """The default of a field that must not be shared."""
    made: Any = _Made(default_factory)
    return made


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, kw_only: bool) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[Any] | None = None, /, *, kw_only: bool = False) -> Any:
    """Make a frozen class of its annotated fields; with `kw_only` they are given by name alone."""

    def made(given: type[Any]) -> type[Any]:
        return _record(given, kw_only)

    return made if cls is None else made(cls)


def replace(it: T, /, **changes: Any) -> T:
    """A copy with some fields changed."""
    return type(it)(**{**vars(it), **changes})


def fields(cls: type[Any]) -> tuple[str, ...]:
    """The names of a record's fields, in order."""
    return tuple(getattr(cls, _FIELDS))


def plain(value: Any) -> Any:
    """Records as mappings, all the way down."""
    if hasattr(type(value), _FIELDS):
        return {name: plain(inner) for name, inner in vars(value).items()}
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _record(cls: type[Any], kw_only: bool) -> type[Any]:
    own = get_annotations(cls)
    defaults: dict[str, Any] = {**getattr(cls, _FIELDS, {})}
    defaults |= {name: cls.__dict__.get(name, _ABSENT) for name in own}
    setattr(cls, _FIELDS, defaults)
    cls.__match_args__ = () if kw_only else tuple(defaults)
    cls.__init__ = _init(defaults, kw_only)
    for name, method in _SHARED.items():
        if name not in cls.__dict__ or cls.__dict__[name] is None:
            setattr(cls, name, method)
    return cls


def _init(defaults: Mapping[str, Any], kw_only: bool) -> Callable[..., None]:
    names = tuple(defaults)
    # Every name from the start, so that equal records hold their fields in one order.
    ready = {name: _ABSENT if isinstance(value, _Made) else value for name, value in defaults.items()}
    made = {name: value.make for name, value in defaults.items() if isinstance(value, _Made)}
    needed = [name for name, value in defaults.items() if value is _ABSENT]
    in_order = 0 if kw_only else len(names)

    def start(self: Any, *given: Any, **named: Any) -> None:
        held = self.__dict__
        held.update(ready)
        held.update(zip(names, given, strict=False))
        held.update(named)
        for name, make in made.items():
            if held[name] is _ABSENT:
                held[name] = make()
        missing = [name for name in needed if held[name] is _ABSENT]
        if missing or len(given) > in_order or len(held) != len(names):
            raise TypeError(_complaint(type(self).__name__, names, missing, len(given) > in_order, held))

    return start


def _complaint(
    cls: str, names: tuple[str, ...], missing: list[str], too_many: bool, held: Mapping[str, Any]
) -> str:
    if too_many:
        return f"{cls} takes its fields by name"
    unknown = [name for name in held if name not in names]
    return f"{cls} has no field {unknown[0]}" if unknown else f"{cls} needs {', '.join(missing)}"


def _set(self: Any, name: str, value: Any) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")


def _delete(self: Any, name: str) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")


def _equal(self: Any, other: Any) -> bool:
    return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash((type(self), *self.__dict__.values()))


def _shown(self: Any) -> str:
    inner = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
    return f"{type(self).__name__}({inner})"


_SHARED: Mapping[str, Callable[..., Any]] = {
    "__setattr__": _set,
    "__delattr__": _delete,
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _shown,
}
