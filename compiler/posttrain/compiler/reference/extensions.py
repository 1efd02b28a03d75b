"""The topics of extensions: methods, reward ops, data steps, sources, environments, trackers."""

from collections.abc import Callable, Iterator, Mapping

from posttrain.compiler.data.relational import RELATIONAL
from posttrain.compiler.reference.topics import Topic, fields_of
from posttrain.compiler.reference.values import flow
from posttrain.compiler.schema.choices import extensions
from posttrain.compiler.schema.models import Definitions, Schema
from posttrain.compiler.schema.words import typed, words
from posttrain.spec import declared
from posttrain.spec.extension import Catalog, Extension, Kind, Method, RewardOp
from posttrain.spec.types import Columns

KINDS: Mapping[Kind, str] = {
    "method": "Training methods",
    "source": "Sources",
    "data": "Data steps",
    "reward": "Reward ops",
    "environment": "Environments",
    "tracker": "Trackers",
}
_PLACES: Mapping[Kind, str] = {
    "method": "stages.train.params",
    "source": "datasets.from",
    "data": "datasets.steps",
    "reward": "rewards.nodes",
    "environment": "environments.params",
    "tracker": "tracking",
}
_INSIDE: Mapping[Kind, str] = {
    "method": "in the `params` of a stage with `train: {name}`",
    "environment": "in the `params` of an environment of the kind `{name}`",
}


def extension_topics(found: Definitions, catalog: Catalog) -> Iterator[Topic]:
    for name in RELATIONAL:
        yield _step(name, found[f"data.{name}"])
    for kind in KINDS:
        for name, extension in extensions(kind, catalog).items():
            yield _topic(kind, name, extension, found[f"{kind}.{name}"])


def _step(name: str, schema: Schema) -> Topic:
    takes = () if "properties" in schema else (f"Takes {words(schema)}.",)
    examples = [f"- {name}: {flow(example)}" for example in schema.get("examples", ())]
    return Topic(
        name=name,
        kind="data",
        says=schema["description"],
        where="in the `steps` of a dataset",
        inside=f"in `{name}`",
        notes=takes,
        fields=fields_of(schema, name, {}),
        example="\n".join(examples),
        place=f"datasets.steps.{name}",
    )


def _topic(kind: Kind, name: str, extension: Extension, schema: Schema) -> Topic:
    where, notes = _ABOUT[kind](name, extension)
    own = _PLACES[kind]
    if kind in ("source", "data"):
        notes = [*notes, *_shortened(name, schema)]
    full = next((s for s in schema.get("anyOf", ()) if "properties" in s), schema)
    return Topic(
        name=name,
        kind=kind,
        says=extension.summary,
        where=where,
        inside=_INSIDE.get(kind, "in `{name}`").format(name=name),
        notes=tuple(notes),
        fields=fields_of(full, name, {}),
        place=own if kind in ("method", "environment") else f"{own}.{name}",
    )


About = tuple[str, list[str]]


def _method(name: str, extension: Extension) -> About:
    assert isinstance(extension, Method), "a method is a Method"
    notes = [f"Reads {'; or '.join(_columns(columns) for columns in extension.accepts)}."]
    if extension.needs_reward:
        notes.append("Needs a reward graph.")
    if extension.needs_reference:
        notes.append("Compares with a reference model: the starting weights, unless `reference` names one.")
    if extension.trl:
        notes.append(f"Further arguments of TRL's {extension.trl} can be given under `trl`.")
    return f"a stage with `train: {name}`; its parameters stand under `params`", notes


def _columns(columns: Columns) -> str:
    """`prompt`, `chosen` (text): a type goes for the names before it."""
    by_type: dict[str, list[str]] = {}
    for name, type in columns.items():
        by_type.setdefault(type, []).append(f"`{name}`")
    return ", ".join(f"{', '.join(names)} ({type})" for type, names in by_type.items())


def _reward(name: str, extension: Extension) -> About:
    assert isinstance(extension, RewardOp), "a reward op is a RewardOp"
    notes = [f"Gives {typed(extension.yields)}{', or what its parameters say' if extension.typed else ''}."]
    needed = {field for field, operand in extension.operands.items() if operand.required}
    needed |= {one.name for one in declared.fields_of(extension.params).values() if one.required}
    if extension.shorthand in extension.operands and needed <= {extension.shorthand}:
        notes.append(f"`{name}: VALUE` is short for `{name}: {{{extension.shorthand}: VALUE}}`.")
    return f"in a reward graph, where {typed(extension.yields)} is wanted", notes


def _shortened(name: str, schema: Schema) -> list[str]:
    """The note about a bare value that may stand for the mapping."""
    short = [s for s in schema.get("anyOf", ()) if "properties" not in s]
    return [f"`{name}: VALUE`, where VALUE is {words(short[0])}, is short for the mapping."] if short else []


def _elsewhere(where: str) -> Callable[[str, Extension], About]:
    return lambda name, _: (where.format(name=name), [])


_ABOUT: Mapping[Kind, Callable[[str, Extension], About]] = {
    "method": _method,
    "reward": _reward,
    "source": _elsewhere("as the `from` of a dataset"),
    "data": _elsewhere("in the `steps` of a dataset"),
    "environment": _elsewhere("as the `kind` of an environment; its parameters stand under `params`"),
    "tracker": _elsewhere("in the list `tracking`"),
}
