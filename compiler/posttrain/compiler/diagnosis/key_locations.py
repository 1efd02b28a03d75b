"""The sections of a recipe that declare a key, for the help of keys in the wrong section."""

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, get_args

from posttrain.compiler.facts.fact_tables import load_table
from posttrain.spec.declaration_fields import Declaration, fields_of, keys_of
from posttrain.spec.recipe import VERBS, Header, Recipe
from posttrain.spec.stage import Stage

_MAX_SHOWN = 3
_MAX_METHODS = 6
_METHOD_PARAMS = "`stages.NAME.params`"
_TOP = "the recipe, at its top"
_OVERLAY_KEYS = ("extends", "profiles", "matrix")


def find_key_location(words: Sequence[str], legal: Collection[str] = ()) -> str:
    """The sections that the first known of several words belongs to; empty if there are none.

    `legal` are the keys of the section where the word was found.
    """
    return next((help for word in words if (help := _listed_location(word, legal))), "") or next(
        (help for word in words if (help := _declared_location(word, legal))), ""
    )


def _listed_location(word: str, legal: Collection[str]) -> str:
    for place, keys in _listed_sections().items():
        if word in keys and not _is_same_section(keys, legal):
            return f"`{word}` belongs in {place}"
        if word in keys and place == _METHOD_PARAMS:
            return f"`{word}` is a parameter of {_methods_with(word)}"
    return ""


def _methods_with(parameter: str) -> str:
    methods: str = load_table("foreign_keys")["methods"].get(parameter, "")
    names = [f"`{name}`" for name in methods.split()] or ["other methods"]
    if len(names) > _MAX_METHODS:
        names = [*names[: _MAX_METHODS - 1], f"{len(names) - _MAX_METHODS + 1} other methods"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _declared_location(word: str, legal: Collection[str]) -> str:
    here = frozenset(legal)
    places = [place for place, keys in _declared_sections().items() if word in keys and keys != here]
    more = " and others" if len(places) > _MAX_SHOWN else ""
    return f"`{word}` belongs in {', '.join(places[:_MAX_SHOWN])}{more}" if places else ""


def _is_same_section(keys: Collection[str], legal: Collection[str]) -> bool:
    """Whether the legal keys are those of a listed section, which can have keys that are not listed."""
    return 2 * len(set(keys) & set(legal)) > min(len(keys), len(legal))


@functools.cache
def _listed_sections() -> Mapping[str, frozenset[str]]:
    """The keys of the table: those of extensions, and those of sections that share keys."""
    listed: Mapping[str, str] = load_table("foreign_keys")["locations"]
    return {place: frozenset(keys.split()) for place, keys in listed.items()}


@functools.cache
def _declared_sections() -> Mapping[str, frozenset[str]]:
    """The keys of every section. One that is declared in several places has the first."""
    places: dict[type[Declaration], str] = {Recipe: _TOP, Stage: "every stage"}
    for name, field in fields_of(Recipe).items():
        if name != "stages":
            inside = name if name in fields_of(Header) else f"{name}.NAME"
            _collect(field.annotation, inside, "`{}`", places)
    for verb, model in VERBS.items():
        _collect(model, "", f"`{verb}` stages", places)
    shared = frozenset(keys_of(Stage))
    found = {
        place: frozenset(keys_of(model)) - (shared if model in VERBS.values() else frozenset())
        for model, place in places.items()
    }
    return found | {_TOP: found[_TOP].union(_OVERLAY_KEYS)}


def _collect(annotation: Any, path: str, form: str, places: dict[type[Declaration], str]) -> None:
    for model in _declarations_in(annotation):
        if model in places:
            continue
        place = form.format(path) if "{}" in form else f"`{path}` of {form}" if path else form
        places[model] = place
        for name, field in fields_of(model).items():
            _collect(field.annotation, f"{path}.{name}" if path else name, form, places)


def _declarations_in(annotation: Any) -> Iterator[type[Declaration]]:
    if isinstance(annotation, type) and issubclass(annotation, Declaration):
        yield annotation
    for part in get_args(annotation):
        yield from _declarations_in(part)
