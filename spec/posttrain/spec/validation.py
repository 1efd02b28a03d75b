"""Builds declarations from plain values, strictly, and reports all errors at once.

Values are not converted, except integers to floats. A value of a union is checked only against the
members that match its shape, so that an error is reported once.
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
    """One error: an unknown or missing key, or a value of the wrong type or out of bounds."""

    kind: Literal["unknown", "missing", "type", "value", "key"]
    path: KeyPath
    message: str = ""
    # The accepted types of a wrong type; the legal keys or words of other errors.
    expected: tuple[Any, ...] = ()
    legal: tuple[str, ...] = ()


class DeclarationError(ValueError):
    """The values do not fit the declaration; `errors` has every error, in the order of the text."""

    def __init__(self, model: type[Declaration], problems: Sequence[FieldError]) -> None:
        self.errors = tuple(problems)
        errors = "; ".join(_format_error(one) for one in problems)
        super().__init__(f"{model.__name__}: {errors}")


def _format_error(problem: FieldError) -> str:
    place = ".".join(str(step) for step in problem.path)
    text = problem.message or f"{problem.kind} {', '.join(map(str, problem.expected))}".strip()
    return f"{place}: {text}" if place else text


def parse_declaration(model: type[DeclarationT], value: Any) -> DeclarationT:
    """Build a declaration from plain values. Raises `DeclarationError`."""
    problems: list[FieldError] = []
    result = _validator(model)(value, (), problems)
    if problems:
        raise DeclarationError(model, problems)
    return cast(DeclarationT, result)


# Returns the value of the field. After a reported error, the returned value has no meaning.
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
            message = "is not one of the legal values"
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
                result = reader(value, at, errors)
                if not errors:
                    return result
        problems += errors or [FieldError(kind="type", path=at, expected=alternatives)]
        return value

    return read


def _matches_member(value: Any, kind: Any) -> bool:
    """Whether a value has the shape of this member of a union, valid or not."""
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
            message = f"must have {len(readers)} items, but has {len(items)}"
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
        result: dict[str, Any] = {}
        for name, one in cast(Mapping[str, Any], value).items():
            errors: list[FieldError] = []
            key_reader(name, (*at, name), errors)
            problems += [replace(problem, kind="key") for problem in errors]
            result[name] = reader(one, (*at, name), problems)
        return result

    return read


def _declaration(model: type[Declaration]) -> Validator:
    declared = {one.key: one for one in fields_of(model).values()}
    # Field names are accepted as well, because plans and programs use them.
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
        values: dict[str, Any] = {}
        for key, inner in cast(Mapping[str, Any], value).items():
            one = known.get(key)
            if one is None:
                errors.append(FieldError(kind="unknown", path=(*at, key), legal=tuple(declared)))
            else:
                values[one.name] = readers[one.name](inner, (*at, key), errors)
        errors += [
            FieldError(kind="missing", path=(*at, one.key), message=one.description)
            for one in needed
            if one.name not in values
        ]
        problems += errors
        return value if errors else _run_check(construct(model, values), at, problems)

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
        result = reader(value, at, problems)
        if len(problems) == before:
            try:
                check(result)
            except ValueError as error:  # it may have a more precise path and the legal values
                where = (*at, *getattr(error, "path", ()))
                legal = getattr(error, "legal", ())
                problems.append(FieldError(kind="value", path=where, message=str(error), legal=legal))
        return result

    return read


def _with_limits(reader: Validator, limits: Limits) -> Validator:
    pattern = compile_pattern(limits)

    def read(value: Any, at: KeyPath, problems: list[FieldError]) -> Any:
        before = len(problems)
        result = reader(value, at, problems)
        if len(problems) == before:
            problems += [
                FieldError(kind="value", path=at, message=message)
                for message in limit_violations(result, limits)
            ]
            if pattern is not None and isinstance(result, str) and pattern.search(result) is None:
                message = "does not match the pattern of this field"
                problems.append(
                    FieldError(kind="value", path=at, message=message, expected=(limits.pattern,))
                )
        return result

    return read
