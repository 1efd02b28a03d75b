"""Finds the keys that a class or function accepts, with their types; for `trl_nested_table.py`."""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tools.trl_table import doc_sentence, recipe_types

# Keys by name, each with its types, its description if known, and its nested keys.
Keys = dict[str, dict[str, Any]]
_NO_NESTED_KEYS: Mapping[str, str] = {}


def key_entry(annotation: Any, doc: str = "", within: str | None = None) -> dict[str, Any]:
    """One key. Without an annotation it accepts every type; with a type that YAML cannot express, none."""
    kinds = {"any"} if annotation is inspect.Parameter.empty else recipe_types(annotation)
    kinds |= {"mapping"} if within else set()
    choices = literal_choices(annotation)
    return {
        "type": sorted(kinds),
        **({"choices": sorted(choices)} if choices else {}),
        **({"doc": doc} if doc else {}),
        **({"set": within} if within else {}),
    }


def literal_choices(annotation: Any) -> list[str]:
    """The allowed values of a type with a closed set of values."""
    parts = (annotation, *typing.get_args(annotation))
    closed = [part for part in parts if typing.get_origin(part) is typing.Literal]
    return [word for part in closed for word in typing.get_args(part) if isinstance(word, str)]


def keys_of_hints(hints: Mapping[str, Any], *, within: Mapping[str, str] = _NO_NESTED_KEYS) -> Keys:
    found = {name: hint for name, hint in hints.items() if not name.startswith("_")}
    return {name: key_entry(hint, within=within.get(name)) for name, hint in found.items()}


def resolved_hints(kind: Any) -> dict[str, Any]:
    """The types of the fields of a class, or of the annotated parameters of a function."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except (NameError, TypeError):  # a type that is imported only for type checkers
        return {}


def keys_of_dataclass(kind: Any, *, within: Mapping[str, str] = _NO_NESTED_KEYS) -> Keys:
    hints, found = resolved_hints(kind), Keys()
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        found[field.name] = key_entry(
            _nullable(hints.get(field.name, field.type), field.default),
            doc_sentence(field.metadata),
            within.get(field.name),
        )
    return found


def keys_of_signature(function: Callable[..., Any], *, without: Iterable[str] = ()) -> Keys:
    """The named parameters, without `*args` and `**kwargs`."""
    hints, left = resolved_hints(function), {*without, "self"}
    signature = inspect.signature(function)
    return {
        name: key_entry(_nullable(hints.get(name, parameter.annotation), parameter.default))
        for name, parameter in signature.parameters.items()
        if name not in left and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }


def _nullable(annotation: Any, default: Any) -> Any:
    """`x: int = None` also accepts null."""
    said = annotation is not inspect.Parameter.empty and not isinstance(annotation, str)
    return annotation | None if default is None and said else annotation
