"""Loads extensions of other distributions, and checks what the compiler relies on."""

import types
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from posttrain.spec.declaration_fields import Declaration, fields_of
from posttrain.spec.extension import Extension, ExtensionError, ExtensionKind, Params

_SCALARS = (int, float, str, bool, type(None), object, Any)
_CONTAINERS = (tuple, list, dict, Mapping, Union, types.UnionType)


def load_foreign_extension(kind: ExtensionKind, name: str, module: str) -> Extension:
    """Import an extension. Raises ExtensionError with its distribution and the cause."""
    where = f"the {kind} `{name}` of {_distribution(kind, name)}"
    try:
        extension = getattr(import_module(module), "EXTENSION", None)
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise ExtensionError(f"{where} cannot be imported: {cause}; repair or uninstall it") from error
    if not isinstance(extension, Extension):
        raise ExtensionError(f"{where}: `EXTENSION` of the module `{module}` is no extension")
    try:
        problems = list(_params_problems(extension.params, ()))
    except Exception as error:  # annotations that cannot be evaluated
        raise ExtensionError(f"{where}: its parameters: {type(error).__name__}: {error}") from error
    if problems:
        raise ExtensionError(f"{where} declares parameters that a recipe cannot set: " + "; ".join(problems))
    return extension


def _distribution(kind: ExtensionKind, name: str) -> str:
    for point in entry_points(group=f"posttrain.{kind}", name=name):
        if point.dist is not None:
            return f"the distribution {point.dist.name} {point.dist.version}"
    return "another distribution"


def _params_problems(model: Any, seen: tuple[Any, ...]) -> Iterator[str]:
    """What is wrong with the fields of a model, and of the models in it."""
    if not (isinstance(model, type) and issubclass(model, Declaration if seen else Params)):
        yield f"{_type_name(model)} must be derived from posttrain.spec.extension.Params"
        return
    model.model_rebuild()
    for one in fields_of(model).values():
        for kind in _types_in(one.annotation):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                if kind not in seen and kind is not model:
                    yield from _params_problems(kind, (*seen, model))
            elif kind not in _SCALARS:
                yield (
                    f"`{one.name}` of {model.__name__} has the type {_type_name(kind)}; use numbers, text,"
                    " booleans, Literal, tuples, dicts or models"
                )


def _types_in(annotation: Any) -> Iterator[Any]:
    """The types of which an annotation consists. The words of a Literal are no types."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _types_in(get_args(annotation)[0])
    elif origin in _CONTAINERS:
        for inner in get_args(annotation):
            yield from () if inner is Ellipsis else _types_in(inner)
    elif origin is not Literal:
        yield annotation


def _type_name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))
