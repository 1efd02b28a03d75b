"""The keys that a class or a function takes, with the types that a recipe may write: for `trl_within.py`."""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tools.trl_table import documented, written

# Keys by name: what each takes, what it is for where that is known, and the keys within it.
Keys = dict[str, dict[str, Any]]
_NOTHING: Mapping[str, str] = {}


def entry(annotation: Any, doc: str = "", within: str | None = None) -> dict[str, Any]:
    """One key. A type that is not said takes anything; one that no recipe can write, nothing."""
    kinds = {"any"} if annotation is inspect.Parameter.empty else written(annotation)
    kinds |= {"mapping"} if within else set()
    choices = literals(annotation)
    return {
        "type": sorted(kinds),
        **({"choices": sorted(choices)} if choices else {}),
        **({"doc": doc} if doc else {}),
        **({"set": within} if within else {}),
    }


def literals(annotation: Any) -> list[str]:
    """The words that a type is closed to."""
    parts = (annotation, *typing.get_args(annotation))
    closed = [part for part in parts if typing.get_origin(part) is typing.Literal]
    return [word for part in closed for word in typing.get_args(part) if isinstance(word, str)]


def of_hints(hints: Mapping[str, Any], *, within: Mapping[str, str] = _NOTHING) -> Keys:
    found = {name: hint for name, hint in hints.items() if not name.startswith("_")}
    return {name: entry(hint, within=within.get(name)) for name, hint in found.items()}


def hints_of(kind: Any) -> dict[str, Any]:
    """The types of a class's fields; of a function's parameters, as far as they are said."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except (NameError, TypeError):  # a type that is imported for type checkers alone
        return {}


def of_dataclass(kind: Any, *, within: Mapping[str, str] = _NOTHING) -> Keys:
    hints, found = hints_of(kind), Keys()
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        found[field.name] = entry(
            _or_null(hints.get(field.name, field.type), field.default),
            documented(field.metadata),
            within.get(field.name),
        )
    return found


def of_signature(function: Callable[..., Any], *, without: Iterable[str] = ()) -> Keys:
    """The parameters that are given by name; none for those that a function takes without naming them."""
    hints, left = hints_of(function), {*without, "self"}
    signature = inspect.signature(function)
    return {
        name: entry(_or_null(hints.get(name, parameter.annotation), parameter.default))
        for name, parameter in signature.parameters.items()
        if name not in left and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }


def _or_null(annotation: Any, default: Any) -> Any:
    """`x: int = None` takes null too, though it does not say so."""
    said = annotation is not inspect.Parameter.empty and not isinstance(annotation, str)
    return annotation | None if default is None and said else annotation
