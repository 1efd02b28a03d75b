"""Validation of values against declarations. Strict pydantic is the oracle."""

import datetime
import math
import random
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pydantic
import pytest
from pydantic import Field

from posttrain.runtime.catalog import CATALOG
from posttrain.spec.declaration_fields import (
    Declaration,
    constraints,
    dump_declaration,
    fields_of,
    is_explicitly_set,
)
from posttrain.spec.declarations import Secret
from posttrain.spec.extension import EXTENSION_KINDS
from posttrain.spec.field_types import OneOrMore, Pair
from posttrain.spec.recipe import SECTIONS, VERBS, Header
from posttrain.spec.validation import DeclarationError, parse_declaration


class Inner(Declaration):
    """A nested declaration."""

    size: int = Field(ge=1, le=9, description="How large.")
    word: Literal["one", "two"] = Field(default="one", description="A word.")


class Outer(Declaration, bare="names"):
    """A declaration with all kinds of fields."""

    names: OneOrMore[str] = Field(default=(), min_length=1, description="Names.")
    from_: str | None = Field(default=None, alias="from", pattern=r"^[a-z]+$", description="Where from.")
    share: float = Field(default=0.5, ge=0, lt=1, description="A share.")
    inner: Literal["auto"] | Inner = Field(default="auto", description="Inside.")
    several: dict[Annotated[str, Field(pattern=r"^\w+$")], Inner] = Field(default={}, description="More.")
    span: Pair[float] | None = Field(default=None, description="From and to.")

    def check(self) -> None:
        if self.span is not None and self.span[0] > self.span[1]:
            raise ValueError("the span ends before it begins")


def problems(value: Any) -> dict[str, str]:
    """The errors, by path."""
    try:
        parse_declaration(Outer, value)
    except DeclarationError as error:
        return {".".join(map(str, one.path)): one.kind for one in error.errors}
    return {}


def test_what_fits_is_made_with_its_defaults() -> None:
    made = parse_declaration(Outer, {"from": "here", "inner": {"size": 3}, "span": [1, 2]})
    assert (made.from_, made.inner, made.span, made.names) == ("here", Inner(size=3), (1.0, 2.0), ())
    assert dump_declaration(made)["from"] == "here"
    assert is_explicitly_set(made, "span")
    assert not is_explicitly_set(made, "share")
    named = parse_declaration(Outer, {"names": ["x"], "span": [1, 2]})
    assert parse_declaration(Outer, dump_declaration(named)) == named


def test_short_forms_stand_for_the_whole() -> None:
    assert (
        parse_declaration(Outer, "x")
        == parse_declaration(Outer, ["x"])
        == parse_declaration(Outer, {"names": "x"})
        == Outer(names=("x",))
    )


def test_all_that_is_wrong_is_told_at_once_and_each_thing_once() -> None:
    given = {
        "form": "x",
        "from": "Here",
        "share": 1.0,
        "inner": {"size": 0, "word": "three", "color": 1},
        "several": {"a b": {"size": True}, "fine": {}},
        "span": [1.0],
    }
    assert problems(given) == {
        "form": "unknown",
        "from": "value",
        "share": "value",
        "inner.size": "value",
        "inner.word": "value",
        "inner.color": "unknown",
        "several.a b": "key",
        "several.a b.size": "type",
        "several.fine.size": "missing",
        "span": "value",
    }


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"inner": 5}, "inner"),
        ({"inner": "none"}, "inner"),
        ({"inner": None}, "inner"),
        ({"share": "0.5"}, "share"),
        ({"share": math.nan}, "share"),
        ({"share": math.inf}, "share"),
        ({"share": -(10**400)}, "share"),
        ({"names": []}, "names"),
        ({"names": [1]}, "names.0"),
        ({"from": "here\n"}, "from"),
        ({"several": []}, "several"),
        ({"span": [2, 1]}, ""),
        (None, "names"),
    ],
)
def test_what_does_not_fit_is_told_where_it_stands(given: Any, place: str) -> None:
    assert list(problems(given)) == [place]


def test_a_secret_that_is_written_out_is_not_told() -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_declaration(Secret, "sk-12345")
    assert "sk-12345" not in str(caught.value)


def declared() -> Iterator[type[Declaration]]:
    yield from (Header, *SECTIONS.values(), *VERBS.values())
    for kind in EXTENSION_KINDS:
        for name in CATALOG.names(kind):
            extension = CATALOG.find(kind, name)
            assert extension is not None
            if not fields_of(extension.params):
                continue
            yield extension.params


ALL = list(dict.fromkeys(declared()))


ODD = (
    None,
    True,
    0,
    1,
    -1,
    3,
    0.5,
    1.5,
    "",
    "x",
    "auto",
    "one two",
    [],
    ["x"],
    [1.0],
    {},
    {"x": 1},
    {"x": "y"},
)


def sample_value(kind: Any, chance: random.Random) -> Any:
    """A strategy for values of the type, and for similar invalid values."""
    if chance.random() < 0.04:
        return chance.choice(ODD)
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Declaration):
        return sample_mapping(kind, chance)
    if origin is Annotated:
        return sample_value(inner[0], chance)
    if origin is Literal:
        return chance.choice(inner)
    if origin is tuple and inner[-1] is Ellipsis:
        return [sample_value(inner[0], chance) for _ in range(chance.randrange(3))]
    if origin is tuple:
        return tuple(sample_value(one, chance) for one in inner)
    if origin is dict:
        return {
            chance.choice(["a", "b c", "d-1"]): sample_value(inner[1], chance)
            for _ in range(chance.randrange(3))
        }
    if inner:
        return sample_value(chance.choice(inner), chance)
    few = {int: (1, 2, 64), float: (0.5, 1, 2.0), str: ("a", "a/b", "a.py:f"), bool: (True, False)}
    return chance.choice(few.get(kind, ODD))


def sample_mapping(declaration: type[Declaration], chance: random.Random) -> dict[str, Any]:
    made = {
        one.key: sample_value(one.annotation, chance)
        for one in fields_of(declaration).values()
        if chance.random() < (0.97 if one.required else 0.3)
    }
    return {**made, "oddity": 1} if chance.random() < 0.05 else made


@pytest.mark.parametrize("declaration", ALL, ids=lambda one: one.__name__)
def test_every_error_of_pydantic_is_reported_at_its_key(declaration: type[Declaration]) -> None:
    chance = random.Random(declaration.__name__)
    accepted = 0
    for _ in range(300):
        value = sample_mapping(declaration, chance)
        reported = reported_keys(declaration, value)
        assert reported == pydantic_keys(declaration, value), value
        accepted += not reported
    assert accepted or has_check(declaration), "every value is rejected"


def reported_keys(declaration: type[Declaration], value: Any) -> set[str]:
    """The top-level keys with errors; empty for an error of the whole value."""
    try:
        parse_declaration(declaration, value)
    except DeclarationError as error:
        return {str(one.path[0]) if one.path else "" for one in error.errors}
    return set()


def pydantic_keys(declaration: type[Declaration], value: Any) -> set[str]:
    try:
        declaration.model_validate(value)
    except pydantic.ValidationError as error:
        return {str(one["loc"][0]) if one["loc"] else "" for one in error.errors(include_url=False)}
    return set()


def has_check(declaration: type[Declaration]) -> bool:
    """Whether the declaration rejects values that its types allow."""
    fields = fields_of(declaration).values()
    nested = [inner for one in fields for inner in nested_declarations(one.annotation)]
    own = any(isinstance(item, pydantic.AfterValidator) for one in fields for item in one.info.metadata)
    return own or declaration.check is not Declaration.check or any(map(has_check, nested))


def nested_declarations(kind: Any) -> Iterator[type[Declaration]]:
    if isinstance(kind, type) and issubclass(kind, Declaration):
        yield kind
    for part in get_args(kind):
        yield from nested_declarations(part)


@pytest.mark.parametrize("declaration", ALL, ids=lambda one: one.__name__)
def test_bounds_stand_at_the_members_of_a_union(declaration: type[Declaration]) -> None:
    """Pydantic would compare every member with a bound of the whole union, texts too."""
    for one in fields_of(declaration).values():
        members = [kind for kind in get_args(one.annotation) if kind is not type(None)]
        if get_origin(one.annotation) in (Union, types.UnionType) and len(members) > 1:
            assert not constraints(one.info.metadata), one.key


def test_declarations_are_frozen() -> None:
    made = parse_declaration(Outer, {"names": ["x"]})
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        made.share = 0.1
    assert made.names == ("x",)
    assert hash(made.inner if isinstance(made.inner, Inner) else Inner(size=1))


@pytest.mark.parametrize("version", [True, 1.0, "1", 2])
def test_the_version_of_the_language_is_the_integer_one(version: Any) -> None:
    with pytest.raises(DeclarationError, match="legal values"):
        parse_declaration(Header, {"recipe": version, "name": "a"})


def _assert_lower(text: str) -> str:
    if not text.islower():  # pytest would extend the message of an assert statement
        raise AssertionError("use lower case")
    return text


class Foreign(Declaration):
    """A declaration of an extension, with validators that this project does not use."""

    even: Annotated[int, pydantic.Field(multiple_of=2)] = 0
    day: datetime.date = datetime.date(2026, 1, 1)
    checked: Annotated[str, pydantic.AfterValidator(_assert_lower)] = ""


@pytest.mark.parametrize(
    ("key", "value", "kind", "message"),
    [
        ("even", 3, "value", "must be a multiple of 2"),
        ("even", 2.5, "type", ""),
        ("even", "x", "type", ""),
        ("day", "soon", "type", ""),
        ("checked", "A", "value", "use lower case"),
    ],
)
def test_validators_of_extensions_are_reported_in_their_own_words(
    key: str, value: Any, kind: str, message: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        parse_declaration(Foreign, {key: value})
    (error,) = caught.value.errors
    assert (error.kind, error.path, error.message) == (kind, (key,), message)
