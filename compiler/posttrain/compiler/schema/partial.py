"""Definitions of overlays: profiles, and recipes that extend others. Nothing in them is required."""

from collections.abc import Set

from posttrain.compiler.schema.models import Definitions, Schema, mapped, reference, union
from posttrain.spec.stages import VERBS

PREFIX = "partial."


def partial_definitions(found: Definitions) -> Definitions:
    """`partial.NAME` for every definition that demands something, or leads to one that does."""
    demanding = _demanding(found)
    made = {f"{PREFIX}{name}": _partial(found[name], demanding) for name in demanding}
    made[f"{PREFIX}stage"] = _stage(found["stage"], made)
    return made


def _demanding(found: Definitions) -> set[str]:
    """The definitions of which an overlay needs one of its own."""
    names = {name for name, schema in found.items() if _partial(schema, set()) != schema} | {"stage"}
    while True:
        more = {name for name, schema in found.items() if _partial(schema, names) != schema}
        if more <= names:
            return names
        names |= more


def _partial(schema: Schema, demanding: Set[str]) -> Schema:
    """The schema of a mapping that is laid over another. A list is not merged, so it stays whole."""

    def within(inner: Schema) -> Schema:
        return _partial(inner, demanding)

    kept = {key: schema[key] for key in ("if", "items") if key in schema}
    made = {**mapped(schema, within), **kept}
    for demand in ("required", "minProperties"):
        made.pop(demand, None)
    name = made.get("$ref", "").removeprefix("#/$defs/")
    return {**made, **reference(f"{PREFIX}{name}")} if name in demanding else made


def _stage(whole: Schema, made: Definitions) -> Schema:
    """A stage that does not repeat its verb may hold what any verb takes."""
    own = {verb: f"{PREFIX}{model.__name__}" for verb, model in VERBS.items()}
    then = [{"if": {"required": [verb]}, "then": reference(name)} for verb, name in own.items()]
    either = union(made[name] for name in own.values())
    either["properties"]["params"] = reference(f"{PREFIX}params" if f"{PREFIX}params" in made else "params")
    return {**whole, "then": {"allOf": then}, "else": either}
