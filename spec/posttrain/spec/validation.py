"""Builds declarations from plain values, strictly, and reports all errors at once.

Pydantic finds the errors. This module puts them into the order of the text and into words. For a value
of a union pydantic reports the errors of every member; here only the member counts that matches the
shape of the value, so that an error is reported once.
"""

import types
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from posttrain.spec.declaration_fields import Declaration, DeclaredField, fields_of, keys_of
from posttrain.spec.error_messages import error_message
from posttrain.spec.extension import ExtensionError
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
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise DeclarationError(model, _errors_of(model, value, (), _lines(error))) from None
    except Exception as error:
        if model.__module__.startswith("posttrain."):
            raise
        # A validator of an extension raised something else than ValueError.
        cause = f"{type(error).__name__}: {error}"
        name = f"{model.__module__}.{model.__qualname__}"
        raise ExtensionError(f"the parameters {name} of an extension cannot be checked: {cause}") from error


@record
class _Line:
    """One error of pydantic, with its location relative to the value under examination."""

    at: tuple[str | int, ...]
    details: ErrorDetails


def _lines(error: ValidationError) -> list[_Line]:
    found = error.errors(include_url=False, include_input=False)
    return [_Line(details["loc"], details) for details in found]


def _errors_of(kind: Any, value: Any, at: KeyPath, lines: Sequence[_Line]) -> list[FieldError]:
    """The errors of a value of this type."""
    kind = _bare_type(kind)
    nested = any(line.at for line in lines)
    if isinstance(kind, type) and issubclass(kind, Declaration):
        return _declaration_errors(kind, value, at, lines)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        members = [member for member in inner if member is not type(None)]
        if len(members) == 1:
            return _errors_of(members[0], value, at, lines)
        if nested:
            return _union_errors(members, value, at)
    if origin is tuple and Ellipsis not in inner and isinstance(value, list | tuple):
        size = len(cast(Sequence[Any], value))
        if size != len(inner):
            message = f"must have {len(inner)} items, but has {size}"
            return [FieldError(kind="value", path=at, message=message)]
    if not nested:
        return [_leaf_error(kind, value, at, line.details) for line in lines]
    if origin in (tuple, list):
        # A bare value of a field that also accepts a single item is a list of one.
        items = cast(Sequence[Any], value if isinstance(value, list | tuple) else (value,))
        return _item_errors(inner, items, at, lines)
    if origin is dict:
        return _mapping_errors(inner, cast(Mapping[str, Any], value), at, lines)
    return [_leaf_error(kind, value, (*at, *line.at), line.details) for line in lines]


def _bare_type(kind: Any) -> Any:
    return _bare_type(get_args(kind)[0]) if get_origin(kind) is Annotated else kind


def _below(lines: Sequence[_Line], step: str | int) -> list[_Line]:
    """The errors below one key or item, relative to it."""
    return [_Line(line.at[1:], line.details) for line in lines if line.at[:1] == (step,)]


def _declaration_errors(
    model: type[Declaration], value: Any, at: KeyPath, lines: Sequence[_Line]
) -> list[FieldError]:
    whole = [line.details for line in lines if not line.at]
    if whole:
        return [_leaf_error(model, value, at, details) for details in whole]
    declared = {one.key: one for one in fields_of(model).values()}
    known = {one.name: one for one in declared.values()} | declared
    values = cast(Mapping[str, Any], model.expand_bare(value))
    problems: list[FieldError] = []
    for key, inner in values.items():
        below = _below(lines, key)
        if key not in known:
            problems.append(FieldError(kind="unknown", path=(*at, key), legal=tuple(declared)))
        elif below := below or _below(lines, known[key].key):
            problems += _errors_of(known[key].annotation, inner, (*at, key), below)
    missing = (line.at[0] for line in lines if line.details["type"] == "missing" and len(line.at) == 1)
    for key in missing:
        problems.append(FieldError(kind="missing", path=(*at, key), message=known[str(key)].description))
    return problems


def _union_errors(members: Sequence[Any], value: Any, at: KeyPath) -> list[FieldError]:
    """The errors of the last member that matches the shape of the value. Of several models it is the
    one that fits best."""
    fitting = [member for member in reversed(members) if _matches_member(value, _bare_type(member))]
    for member in sorted(fitting, key=lambda one: _mismatch(value, _bare_type(one))):
        try:
            _adapter(member).validate_python(value, strict=True)
        except ValidationError as error:
            return _errors_of(member, value, at, _lines(error))
    return [FieldError(kind="type", path=at, expected=tuple(map(_bare_type, members)))]


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _mismatch(value: Any, kind: Any) -> tuple[bool, int]:
    """How badly a mapping fits a model: whether a word that tells it from others differs ({kind: dog}), and
    the number of unknown keys."""
    if not (isinstance(kind, type) and issubclass(kind, Declaration) and isinstance(value, Mapping)):
        return False, 0
    given = cast(Mapping[str, Any], value)
    words = {one.key: get_args(one.annotation) for one in fields_of(kind).values() if _is_word(one)}
    differs = any(key in given and given[key] not in legal for key, legal in words.items())
    return differs, len(given.keys() - set(keys_of(kind)))


def _is_word(one: DeclaredField) -> bool:
    return get_origin(one.annotation) is Literal


def _matches_member(value: Any, kind: Any) -> bool:
    """Whether a value has the shape of this member of a union, valid or not."""
    origin = get_origin(kind)
    if origin is Literal:
        return any(type(value) is type(word) for word in get_args(kind))
    if origin in (list, tuple):
        return isinstance(value, list | tuple)
    if origin is dict or (isinstance(kind, type) and issubclass(kind, Declaration)):
        return isinstance(value, Mapping)
    return kind is Any or type(value) is kind or (kind is float and type(value) is int)


def _item_errors(
    inner: Sequence[Any], value: Sequence[Any], at: KeyPath, lines: Sequence[_Line]
) -> list[FieldError]:
    kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
    return [
        problem
        for place, (kind, item) in enumerate(zip(kinds, value, strict=False))
        if (below := _below(lines, place))
        for problem in _errors_of(kind, item, (*at, place), below)
    ]


def _mapping_errors(
    inner: Sequence[Any], value: Mapping[str, Any], at: KeyPath, lines: Sequence[_Line]
) -> list[FieldError]:
    problems: list[FieldError] = []
    for name, item in value.items():
        below = _below(lines, name)
        keys = [line.details for line in below if line.at == ("[key]",)]
        problems += _key_errors(_bare_type(inner[0]), (*at, name), keys)
        below = [line for line in below if line.at != ("[key]",)]
        if below:
            problems += _errors_of(inner[1], item, (*at, name), below)
    return problems


def _key_errors(kind: Any, at: KeyPath, found: Iterable[ErrorDetails]) -> list[FieldError]:
    leaves = (_leaf_error(kind, at[-1], at, details) for details in found)
    return [
        FieldError(kind="key", path=leaf.path, message=leaf.message, expected=leaf.expected)
        for leaf in leaves
    ]


def _leaf_error(kind: Any, value: Any, at: KeyPath, details: ErrorDetails) -> FieldError:
    type_, context = details["type"], details.get("ctx", {})
    if type_ == "value_error":  # the check of a declaration or of a field
        cause = context["error"]
        path, legal = getattr(cause, "path", ()), getattr(cause, "legal", ())
        return FieldError(kind="value", path=(*at, *path), message=str(cause), legal=tuple(legal))
    if type_ == "union_tag_invalid":
        words = tuple(word.strip(" '") for word in context["expected_tags"].split(","))
        path = (*at, context["discriminator"].strip("'"))
        return FieldError(kind="value", path=path, message="is not one of the legal values", legal=words)
    if type_ == "union_tag_not_found":
        return FieldError(kind="missing", path=(*at, context["discriminator"].strip("'")))
    if type_ == "literal_error":
        message = "is not one of the legal values"
        legal = tuple(str(word) for word in get_args(kind))
        return FieldError(kind="value", path=at, message=message, legal=legal)
    if type_ == "string_pattern_mismatch":
        message = "does not match the pattern of this field"
        return FieldError(kind="value", path=at, message=message, expected=(context["pattern"],))
    if type_ == "float_type" and type(value) is int:
        return FieldError(kind="value", path=at, message="is too large")
    message = error_message(type_, context)
    if message is not None:
        return FieldError(kind="value", path=at, message=message)
    if not type_.endswith("_type") and type_ != "int_from_float":  # of a validator of an extension
        return FieldError(kind="value", path=at, message=_sentence_part(details["msg"]))
    return FieldError(kind="type", path=at, expected=_accepted_types(kind))


def _sentence_part(message: str) -> str:
    """Pydantic's message as the end of a sentence: `must be one of ...`."""
    text = message.removeprefix("Assertion failed, ").removeprefix("Input should ")
    return f"must {text}" if message.startswith("Input should ") else text


def _accepted_types(kind: Any) -> tuple[Any, ...]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return tuple(_bare_type(member) for member in inner if member is not type(None))
    return (list if origin is tuple else origin or kind,)
