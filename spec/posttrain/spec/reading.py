"""Makes a declaration of plain values, strictly, and tells everything that is wrong with them at once.

Nothing is turned into another type, but for a whole number where any number goes. Of the members of
a union, the one that a value is shaped like is held to it, so that a mistake is told once.
"""

import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from posttrain.spec.declared import Declaration, Declared, fields_of, made_of
from posttrain.spec.limits import Limits, beyond, pattern_of
from posttrain.spec.record import record

Path = tuple[str | int, ...]
Read = TypeVar("Read", bound=Declaration)


@record(kw_only=True)
class Problem:
    """One thing that is wrong: a key unknown or missing, a value of the wrong type, or out of bounds."""

    what: Literal["unknown", "missing", "type", "value", "key"]
    at: Path
    message: str = ""
    # The types that would do, for a wrong one; the keys or words that would, for others.
    wanted: tuple[Any, ...] = ()
    legal: tuple[str, ...] = ()


class Unreadable(ValueError):
    """The values do not fit the declaration; `problems` has every reason, in the order of the text."""

    def __init__(self, model: type[Declaration], problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        told = "; ".join(_told(one) for one in problems)
        super().__init__(f"{model.__name__}: {told}")


def _told(problem: Problem) -> str:
    place = ".".join(str(step) for step in problem.at)
    said = problem.message or f"{problem.what} {', '.join(map(str, problem.wanted))}".strip()
    return f"{place}: {said}" if place else said


def read(model: type[Read], value: Any) -> Read:
    """The declaration that these values make. Unreadable when they make none."""
    problems: list[Problem] = []
    made = _reader(model)(value, (), problems)
    if problems:
        raise Unreadable(model, problems)
    return cast(Read, made)


# Gives the value as the field holds it. What it gives has no meaning once it has told of a problem.
Reader = Callable[[Any, Path, list[Problem]], Any]


@cache
def _reader(kind: Any) -> Reader:
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Declaration):
        return _declaration(kind)
    if origin is Annotated:
        return _limited(_reader(inner[0]), inner[1])
    if origin is Literal:
        return _words(inner)
    if origin in (Union, types.UnionType):
        return _union(inner)
    if origin in (list, tuple):
        return _list(inner, fixed=origin is tuple)
    if origin is dict:
        return _mapping(*inner)
    return _scalar(kind)


def _scalar(kind: Any) -> Reader:
    def read(value: Any, at: Path, problems: list[Problem]) -> Any:
        if kind is Any or type(value) is kind:
            if kind is float and not math.isfinite(value):
                problems.append(Problem(what="value", at=at, message="must be finite"))
            return value
        if kind is float and type(value) is int:
            return _float(value, at, problems)
        problems.append(Problem(what="type", at=at, wanted=(kind,)))
        return value

    return read


def _float(value: int, at: Path, problems: list[Problem]) -> float:
    try:
        return float(value)
    except OverflowError:
        problems.append(Problem(what="value", at=at, message="is too large"))
        return 0.0


def _words(legal: Sequence[Any]) -> Reader:
    known = {(type(word), word) for word in legal}
    shown = tuple(str(word) for word in legal)

    def read(value: Any, at: Path, problems: list[Problem]) -> Any:
        if not isinstance(value, str | int | float | bool) or (type(value), value) not in known:
            message = "is none of the values that this field takes"
            problems.append(Problem(what="value", at=at, message=message, legal=shown))
        return value

    return read


def _union(members: Sequence[Any]) -> Reader:
    readers = [(member, _reader(member)) for member in members]
    wanted = tuple(member for member in members if member is not type(None))

    def read(value: Any, at: Path, problems: list[Problem]) -> Any:
        if value is None and len(wanted) < len(members):
            return None
        told: list[Problem] = []
        for member, reader in readers:
            if _shaped_like(value, member):
                told = []
                found = reader(value, at, told)
                if not told:
                    return found
        problems += told or [Problem(what="type", at=at, wanted=wanted)]
        return value

    return read


def _shaped_like(value: Any, kind: Any) -> bool:
    """Whether a value is meant for this member of a union, right or wrong as it may be."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _shaped_like(value, get_args(kind)[0])
    if origin is Literal:
        return any(type(value) is type(word) for word in get_args(kind))
    if origin in (list, tuple):
        return isinstance(value, list | tuple)
    if origin is dict or (isinstance(kind, type) and issubclass(kind, Declaration)):
        return isinstance(value, Mapping)
    return kind is Any or type(value) is kind or (kind is float and type(value) is int)


def _list(inner: Sequence[Any], fixed: bool) -> Reader:
    readers = [_reader(kind) for kind in inner]

    def read(value: Any, at: Path, problems: list[Problem]) -> Any:
        if not isinstance(value, list | tuple):
            problems.append(Problem(what="type", at=at, wanted=(list,)))
            return value
        items = cast(Sequence[Any], value)
        if not fixed:
            return [readers[0](item, (*at, place), problems) for place, item in enumerate(items)]
        if len(items) != len(readers):
            message = f"must hold {len(readers)} items, and holds {len(items)}"
            problems.append(Problem(what="value", at=at, message=message))
            return value
        pairs = enumerate(zip(readers, items, strict=True))
        return tuple(reader(item, (*at, place), problems) for place, (reader, item) in pairs)

    return read


def _mapping(key: Any, inner: Any) -> Reader:
    key_reader, reader = _reader(key), _reader(inner)

    def read(value: Any, at: Path, problems: list[Problem]) -> Any:
        if not isinstance(value, Mapping):
            problems.append(Problem(what="type", at=at, wanted=(dict,)))
            return value
        held: dict[str, Any] = {}
        for name, one in cast(Mapping[str, Any], value).items():
            told: list[Problem] = []
            key_reader(name, (*at, name), told)
            problems += [replace(problem, what="key") for problem in told]
            held[name] = reader(one, (*at, name), problems)
        return held

    return read


def _declaration(model: type[Declaration]) -> Reader:
    declared = {one.key: one for one in fields_of(model).values()}
    # The names in Python go too, as plans and programs write them.
    known = {one.name: one for one in declared.values()} | declared
    needed = tuple(one for one in declared.values() if one.required)
    readers = {one.name: _field(one) for one in declared.values()}

    def read(value: Any, at: Path, problems: list[Problem]) -> Any:
        if not isinstance(value, Mapping):
            if model.bare is None:
                problems.append(Problem(what="type", at=at, wanted=(model,)))
                return value
            value = {model.bare: value}
        told: list[Problem] = []
        held: dict[str, Any] = {}
        for key, inner in cast(Mapping[str, Any], value).items():
            one = known.get(key)
            if one is None:
                told.append(Problem(what="unknown", at=(*at, key), legal=tuple(declared)))
            else:
                held[one.name] = readers[one.name](inner, (*at, key), told)
        told += [
            Problem(what="missing", at=(*at, one.key), message=one.description)
            for one in needed
            if one.name not in held
        ]
        problems += told
        return value if told else _checked(made_of(model, held), at, problems)

    return read


def _checked(made: Declaration, at: Path, problems: list[Problem]) -> Declaration:
    try:
        made.check()
    except ValueError as error:
        problems.append(Problem(what="value", at=at, message=str(error)))
    return made


def _field(one: Declared) -> Reader:
    reader = _reader(one.kind)
    if one.limits is not None:
        reader = _limited(reader, one.limits)
    if one.single:
        reader = _or_single(reader)
    return reader if one.check is None else _held_to(reader, one.check)


def _or_single(reader: Reader) -> Reader:
    def read(value: Any, at: Path, problems: list[Problem]) -> Any:
        return reader([value] if isinstance(value, str | int | float) else value, at, problems)

    return read


def _held_to(reader: Reader, check: Callable[[Any], object]) -> Reader:
    def read(value: Any, at: Path, problems: list[Problem]) -> Any:
        before = len(problems)
        found = reader(value, at, problems)
        if len(problems) == before:
            try:
                check(found)
            except ValueError as error:  # it may know better where, and what would do
                where = (*at, *getattr(error, "at", ()))
                legal = getattr(error, "legal", ())
                problems.append(Problem(what="value", at=where, message=str(error), legal=legal))
        return found

    return read


def _limited(reader: Reader, limits: Limits) -> Reader:
    form = pattern_of(limits)

    def read(value: Any, at: Path, problems: list[Problem]) -> Any:
        before = len(problems)
        found = reader(value, at, problems)
        if len(problems) == before:
            problems += [Problem(what="value", at=at, message=told) for told in beyond(found, limits)]
            if form is not None and isinstance(found, str) and form.search(found) is None:
                message = "does not have the form that this field takes"
                problems.append(Problem(what="value", at=at, message=message, wanted=(limits.pattern,)))
        return found

    return read
