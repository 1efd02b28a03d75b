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

from posttrain.spec.declaration_fields import Declaration, FieldInfo, construct, fields_of
from posttrain.spec.field_limits import Limits, compile_pattern, limit_violations
from posttrain.spec.record import record

KeyPath = tuple[str | int, ...]
DeclarationT = TypeVar("DeclarationT", bound=Declaration)


@record(kw_only=True)
class FieldError:
    """One thing that is wrong: a key unknown or missing, a value of the wrong type, or out of bounds."""

    kind: Literal["unknown", "missing", "type", "value", "key"]
    path: KeyPath
    message: str = ""
    # The types that would do, for a wrong one; the keys or words that would, for others.
    expected: tuple[Any, ...] = ()
    legal: tuple[str, ...] = ()


class DeclarationError(ValueError):
    """The values do not fit the declaration; `problems` has every reason, in the order of the text."""

    def __init__(self, model: type[Declaration], problems: Sequence[FieldError]) -> None:
        self.errors = tuple(problems)
        errors = "; ".join(_format_error(one) for one in problems)
        super().__init__(f"{model.__name__}: {errors}")


def _format_error(problem: FieldError) -> str:
    place = ".".join(str(step) for step in problem.path)
    text = problem.message or f"{problem.kind} {', '.join(map(str, problem.expected))}".strip()
    return f"{place}: {text}" if place else text


def parse_declaration(model: type[DeclarationT], value: Any) -> DeclarationT:
    """The declaration that these values make. Unreadable when they make none."""
    problems: list[FieldError] = []
    result = _validator(model)(value, (), problems)
    if problems:
        raise DeclarationError(model, problems)
    return cast(DeclarationT, result)


# Gives the value as the field holds it. What it gives has no meaning once it has told of a problem.
Validator = Callable[[Any, KeyPath, list[FieldError]], Any]


@cache
def _validator(kind: Any) -> Validator:
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Declaration):
        return _declaration(kind)
    if origin is Annotated:
        return _with_limits(_validator(inner[0]), inner[1])
    if origin is Literal:
        return _literal(inner)
    if origin in (Union, types.UnionType):
        return _union(inner)
    if origin in (list, tuple):
        return _list(inner, fixed=origin is tuple)
    if origin is dict:
        return _mapping(*inner)
    return _scalar(kind)


def _scalar(kind: Any) -> Validator:
    def read(value: Any, at: KeyPath, problems: list[FieldError]) -> Any:
        if kind is Any or type(value) is kind:
            if kind is float and not math.isfinite(value):
                problems.append(FieldError(kind="value", path=at, message="must be finite"))
            return value
        if kind is float and type(value) is int:
            return _float(value, at, problems)
        problems.append(FieldError(kind="type", path=at, expected=(kind,)))
        return value

    return read


def _float(value: int, at: KeyPath, problems: list[FieldError]) -> float:
    try:
        return float(value)
    except OverflowError:
        problems.append(FieldError(kind="value", path=at, message="is too large"))
        return 0.0


def _literal(legal: Sequence[Any]) -> Validator:
    known = {(type(word), word) for word in legal}
    shown = tuple(str(word) for word in legal)

    def read(value: Any, at: KeyPath, problems: list[FieldError]) -> Any:
        if not isinstance(value, str | int | float | bool) or (type(value), value) not in known:
            message = "is none of the values that this field takes"
            problems.append(FieldError(kind="value", path=at, message=message, legal=shown))
        return value

    return read


def _union(members: Sequence[Any]) -> Validator:
    readers = [(member, _validator(member)) for member in members]
    alternatives = tuple(member for member in members if member is not type(None))

    def read(value: Any, at: KeyPath, problems: list[FieldError]) -> Any:
        if value is None and len(alternatives) < len(members):
            return None
        errors: list[FieldError] = []
        for member, reader in readers:
            if _matches_member(value, member):
                errors = []
                found = reader(value, at, errors)
                if not errors:
                    return found
        problems += errors or [FieldError(kind="type", path=at, expected=alternatives)]
        return value

    return read


def _matches_member(value: Any, kind: Any) -> bool:
    """Whether a value is meant for this member of a union, right or wrong as it may be."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _matches_member(value, get_args(kind)[0])
    if origin is Literal:
        return any(type(value) is type(word) for word in get_args(kind))
    if origin in (list, tuple):
        return isinstance(value, list | tuple)
    if origin is dict or (isinstance(kind, type) and issubclass(kind, Declaration)):
        return isinstance(value, Mapping)
    return kind is Any or type(value) is kind or (kind is float and type(value) is int)


def _list(inner: Sequence[Any], fixed: bool) -> Validator:
    readers = [_validator(kind) for kind in inner]

    def read(value: Any, at: KeyPath, problems: list[FieldError]) -> Any:
        if not isinstance(value, list | tuple):
            problems.append(FieldError(kind="type", path=at, expected=(list,)))
            return value
        items = cast(Sequence[Any], value)
        if not fixed:
            return [readers[0](item, (*at, place), problems) for place, item in enumerate(items)]
        if len(items) != len(readers):
            message = f"must hold {len(readers)} items, and holds {len(items)}"
            problems.append(FieldError(kind="value", path=at, message=message))
            return value
        pairs = enumerate(zip(readers, items, strict=True))
        return tuple(reader(item, (*at, place), problems) for place, (reader, item) in pairs)

    return read


def _mapping(key: Any, inner: Any) -> Validator:
    key_reader, reader = _validator(key), _validator(inner)

    def read(value: Any, at: KeyPath, problems: list[FieldError]) -> Any:
        if not isinstance(value, Mapping):
            problems.append(FieldError(kind="type", path=at, expected=(dict,)))
            return value
        held: dict[str, Any] = {}
        for name, one in cast(Mapping[str, Any], value).items():
            errors: list[FieldError] = []
            key_reader(name, (*at, name), errors)
            problems += [replace(problem, kind="key") for problem in errors]
            held[name] = reader(one, (*at, name), problems)
        return held

    return read


def _declaration(model: type[Declaration]) -> Validator:
    declared = {one.key: one for one in fields_of(model).values()}
    # The names in Python go too, as plans and programs write them.
    known = {one.name: one for one in declared.values()} | declared
    needed = tuple(one for one in declared.values() if one.required)
    readers = {one.name: _field(one) for one in declared.values()}

    def read(value: Any, at: KeyPath, problems: list[FieldError]) -> Any:
        if not isinstance(value, Mapping):
            if model.bare is None:
                problems.append(FieldError(kind="type", path=at, expected=(model,)))
                return value
            value = {model.bare: value}
        errors: list[FieldError] = []
        held: dict[str, Any] = {}
        for key, inner in cast(Mapping[str, Any], value).items():
            one = known.get(key)
            if one is None:
                errors.append(FieldError(kind="unknown", path=(*at, key), legal=tuple(declared)))
            else:
                held[one.name] = readers[one.name](inner, (*at, key), errors)
        errors += [
            FieldError(kind="missing", path=(*at, one.key), message=one.description)
            for one in needed
            if one.name not in held
        ]
        problems += errors
        return value if errors else _run_check(construct(model, held), at, problems)

    return read


def _run_check(result: Declaration, at: KeyPath, problems: list[FieldError]) -> Declaration:
    try:
        result.check()
    except ValueError as error:
        problems.append(FieldError(kind="value", path=at, message=str(error)))
    return result


def _field(one: FieldInfo) -> Validator:
    reader = _validator(one.annotation)
    if one.limits is not None:
        reader = _with_limits(reader, one.limits)
    if one.single:
        reader = _accept_single(reader)
    return reader if one.check is None else _with_check(reader, one.check)


def _accept_single(reader: Validator) -> Validator:
    def read(value: Any, at: KeyPath, problems: list[FieldError]) -> Any:
        return reader([value] if isinstance(value, str | int | float) else value, at, problems)

    return read


def _with_check(reader: Validator, check: Callable[[Any], object]) -> Validator:
    def read(value: Any, at: KeyPath, problems: list[FieldError]) -> Any:
        before = len(problems)
        found = reader(value, at, problems)
        if len(problems) == before:
            try:
                check(found)
            except ValueError as error:  # it may know better where, and what would do
                where = (*at, *getattr(error, "path", ()))
                legal = getattr(error, "legal", ())
                problems.append(FieldError(kind="value", path=where, message=str(error), legal=legal))
        return found

    return read


def _with_limits(reader: Validator, limits: Limits) -> Validator:
    form = compile_pattern(limits)

    def read(value: Any, at: KeyPath, problems: list[FieldError]) -> Any:
        before = len(problems)
        found = reader(value, at, problems)
        if len(problems) == before:
            problems += [
                FieldError(kind="value", path=at, message=errors)
                for errors in limit_violations(found, limits)
            ]
            if form is not None and isinstance(found, str) and form.search(found) is None:
                message = "does not have the form that this field takes"
                problems.append(
                    FieldError(kind="value", path=at, message=message, expected=(limits.pattern,))
                )
        return found

    return read
