"""Validation of values against declarations. Strict pydantic is the oracle."""

import math
import random
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

import pydantic
import pytest

from posttrain.runtime.catalog import CATALOG
from posttrain.spec.declaration_fields import (
    Declaration,
    dump_declaration,
    field,
    fields_of,
    is_explicitly_set,
)
from posttrain.spec.declarations import Secret
from posttrain.spec.extension import EXTENSION_KINDS
from posttrain.spec.field_limits import Limits
from posttrain.spec.recipe import SECTIONS, VERBS, Header
from posttrain.spec.validation import DeclarationError, parse_declaration


class Inner(Declaration):
    """A nested declaration."""

    size: int = field(ge=1, le=9, description="How large.")
    word: Literal["one", "two"] = field(default="one", description="A word.")


class Outer(Declaration, bare="names"):
    """A declaration with all kinds of fields."""

    names: list[str] = field(default=[], single=True, min_length=1, description="Names.")
    from_: str | None = field(default=None, key="from", pattern=r"^[a-z]+$", description="Where from.")
    share: float = field(default=0.5, ge=0, lt=1, description="A share.")
    inner: Literal["auto"] | Inner = field(default="auto", description="Inside.")
    several: dict[Annotated[str, Limits(pattern=r"^\w+$")], Inner] = field(default={}, description="More.")
    span: tuple[float, float] | None = field(default=None, description="From and to.")

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
    assert (made.from_, made.inner, made.span, made.names) == ("here", Inner(size=3), (1.0, 2.0), [])
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
        == Outer(names=["x"])
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


def as_pydantic(kind: Any) -> Any:
    """The equivalent pydantic type, with declarations as pydantic models."""
    if isinstance(kind, type) and issubclass(kind, Declaration):
        return model_of(kind)
    if get_origin(kind) is Annotated:
        base, limits = get_args(kind)
        return Annotated[as_pydantic(base), pydantic.Field(**pydantic_bounds(limits))]
    inner = get_args(kind)
    if not inner or get_origin(kind) is Literal:
        return kind
    members = tuple(as_pydantic(one) for one in inner)
    if get_origin(kind) in (list, dict, tuple):
        return get_origin(kind)[members]
    return eval("|".join(f"m[{place}]" for place in range(len(members))), {"m": members})


def pydantic_bounds(limits: Limits | None) -> dict[str, Any]:
    return {} if limits is None else {name: one for name, one in vars(limits).items() if one is not None}


MODELS: dict[type[Declaration], type[pydantic.BaseModel]] = {}


def model_of(declaration: type[Declaration]) -> type[pydantic.BaseModel]:
    if declaration not in MODELS:
        fields: dict[str, Any] = {}
        for one in fields_of(declaration).values():
            default = ... if one.required else None
            declared = pydantic.Field(default, alias=one.key, **pydantic_bounds(one.limits))
            fields[one.name.rstrip("_") + "_f"] = (as_pydantic(one.annotation), declared)
        config = pydantic.ConfigDict(extra="forbid", strict=True, protected_namespaces=())
        MODELS[declaration] = pydantic.create_model(declaration.__name__, __config__=config, **fields)
    return MODELS[declaration]


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
    if origin is list:
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
def test_pydantic_takes_and_refuses_the_same(declaration: type[Declaration]) -> None:
    chance = random.Random(declaration.__name__)
    taken = 0
    for _ in range(300):
        value = sample_mapping(declaration, chance)
        ours = refused_at(declaration, value)
        theirs = refused_by_pydantic(declaration, value)
        assert ours <= theirs | checked(declaration), value
        assert ours or not theirs, value
        taken += not ours
    assert taken or checked(declaration) != {""}, "the values are not all refused"


def refused_at(declaration: type[Declaration], value: Any) -> set[str]:
    """The top-level keys with errors; empty for an error of the whole value."""
    try:
        parse_declaration(declaration, value)
    except DeclarationError as error:
        return {str(one.path[0]) if one.path else "" for one in error.errors}
    return set()


def refused_by_pydantic(declaration: type[Declaration], value: Any) -> set[str]:
    listed = {one.key for one in fields_of(declaration).values() if one.single}
    given = {
        key: [one] if key in listed and isinstance(one, str | int | float) else one
        for key, one in value.items()
    }
    try:
        model_of(declaration).model_validate(given)
    except pydantic.ValidationError as error:
        return {str(one["loc"][0]) if one["loc"] else "" for one in error.errors(include_url=False)}
    return set()


def checked(declaration: type[Declaration]) -> set[str]:
    """Fields whose own checks, or those of a nested declaration, can reject values that the types allow."""
    fields = fields_of(declaration).values()
    return {
        "",
        *(
            one.key
            for one in fields
            if one.check is not None or any(map(has_own_check, nested_declarations(one.annotation)))
        ),
    }


def has_own_check(declaration: type[Declaration]) -> bool:
    return declaration.check is not Declaration.check or checked(declaration) != {""}


def nested_declarations(kind: Any) -> Iterator[type[Declaration]]:
    if isinstance(kind, type) and issubclass(kind, Declaration):
        yield kind
    for part in get_args(kind):
        yield from nested_declarations(part)
