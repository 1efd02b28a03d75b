"""The topics of extensions: methods, reward ops, data steps, sources, environments, trackers."""

from collections.abc import Callable, Iterator, Mapping

from posttrain.compiler.data.relational_steps import RELATIONAL_STEPS, ROW_STEPS
from posttrain.compiler.reference.flow_yaml import to_flow_yaml
from posttrain.compiler.reference.topics import Topic, topic_fields
from posttrain.compiler.schema.schema_choices import extensions_of_kind
from posttrain.compiler.schema.schema_declarations import Definitions, Schema
from posttrain.compiler.schema.schema_wording import describe_schema, describe_type
from posttrain.spec import declaration_fields
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import Catalog, DataOp, Extension, ExtensionKind, Method, RewardOp

KIND_TITLES: Mapping[ExtensionKind, str] = {
    "method": "Training methods",
    "source": "Sources",
    "data": "Data steps",
    "reward": "Reward ops",
    "environment": "Environments",
    "tracker": "Trackers",
}
_KIND_PATHS: Mapping[ExtensionKind, str] = {
    "method": "stages.train.params",
    "source": "datasets.from",
    "data": "datasets.steps",
    "reward": "rewards.nodes",
    "environment": "environments.params",
    "tracker": "tracking",
}
_FIELD_LOCATIONS: Mapping[ExtensionKind, str] = {
    "method": "in the `params` of a stage with `train: {name}`",
    "environment": "in the `params` of an environment with `type: {name}`",
}


_ON_STREAMS = "Also for streamed datasets."


def extension_topics(found: Definitions, catalog: Catalog) -> Iterator[Topic]:
    for name in RELATIONAL_STEPS:
        yield _relational_step_topic(name, found[f"data.{name}"])
    for kind in KIND_TITLES:
        for name, extension in extensions_of_kind(kind, catalog).items():
            yield _extension_topic(kind, name, extension, found[f"{kind}.{name}"])


def _relational_step_topic(name: str, schema: Schema) -> Topic:
    takes = () if "properties" in schema else (f"Takes {describe_schema(schema)}.",)
    takes = (*takes, _ON_STREAMS) if name in ROW_STEPS else takes
    examples = [f"- {name}: {to_flow_yaml(example)}" for example in schema.get("examples", ())]
    return Topic(
        name=name,
        kind="data",
        description=schema["description"],
        location="in the `steps` of a dataset",
        field_location=f"in `{name}`",
        notes=takes,
        fields=topic_fields(schema, name, {}),
        example="\n".join(examples),
        recipe_path=f"datasets.steps.{name}",
    )


def _extension_topic(kind: ExtensionKind, name: str, extension: Extension, schema: Schema) -> Topic:
    where, notes = _DESCRIBE_KIND[kind](name, extension)
    own = _KIND_PATHS[kind]
    if kind in ("source", "data"):
        notes = [*notes, *_shorthand_notes(name, schema)]
    full = next((s for s in schema.get("anyOf", ()) if "properties" in s), schema)
    return Topic(
        name=name,
        kind=kind,
        description=extension.summary,
        location=where,
        field_location=_FIELD_LOCATIONS.get(kind, "in `{name}`").format(name=name),
        notes=tuple(notes),
        fields=topic_fields(full, name, {}),
        recipe_path=own if kind in ("method", "environment") else f"{own}.{name}",
    )


LocationAndNotes = tuple[str, list[str]]


def _describe_method(name: str, extension: Extension) -> LocationAndNotes:
    assert isinstance(extension, Method), "a method is a Method"
    notes = [f"Reads {'; or '.join(_describe_columns(columns) for columns in extension.accepts)}."]
    if extension.needs_reward:
        notes.append("Needs a reward graph.")
    if extension.needs_reference:
        notes.append("Compares with a reference model: the starting weights, unless `reference` names one.")
    if extension.streams_rows:
        notes.append(_ON_STREAMS)
    if extension.trl:
        notes.append(f"`trl` passes additional arguments to TRL's {extension.trl}.")
    return f"a stage with `train: {name}`; its parameters are in `params`", notes


def _describe_data_op(_: str, extension: Extension) -> LocationAndNotes:
    assert isinstance(extension, DataOp), "a data step is a DataOp"
    return "in the `steps` of a dataset", [_ON_STREAMS] if extension.row_by_row else []


def _describe_columns(columns: Columns) -> str:
    """Columns grouped by type, such as `prompt`, `chosen` (text)."""
    by_type: dict[str, list[str]] = {}
    for name, type in columns.items():
        by_type.setdefault(type, []).append(f"`{name}`")
    return ", ".join(f"{', '.join(names)} ({type})" for type, names in by_type.items())


def _describe_reward_op(name: str, extension: Extension) -> LocationAndNotes:
    assert isinstance(extension, RewardOp), "a reward op is a RewardOp"
    inferred = ", or the type that its parameters determine" if extension.infer_type else ""
    notes = [f"Returns {describe_type(extension.yields)}{inferred}."]
    needed = {field for field, operand in extension.operands.items() if operand.required}
    needed |= {one.name for one in declaration_fields.fields_of(extension.params).values() if one.required}
    if extension.shorthand in extension.operands and needed <= {extension.shorthand}:
        notes.append(f"`{name}: VALUE` is short for `{name}: {{{extension.shorthand}: VALUE}}`.")
    return f"in a reward graph, where {describe_type(extension.yields)} is expected", notes


def _shorthand_notes(name: str, schema: Schema) -> list[str]:
    """The note about the shorthand for the mapping."""
    short = [s for s in schema.get("anyOf", ()) if "properties" not in s]
    return (
        [f"`{name}: VALUE`, where VALUE is {describe_schema(short[0])}, is short for the mapping."]
        if short
        else []
    )


def _at_location(where: str) -> Callable[[str, Extension], LocationAndNotes]:
    return lambda name, _: (where.format(name=name), [])


_DESCRIBE_KIND: Mapping[ExtensionKind, Callable[[str, Extension], LocationAndNotes]] = {
    "method": _describe_method,
    "reward": _describe_reward_op,
    "source": _at_location("as the `from` of a dataset"),
    "data": _describe_data_op,
    "environment": _at_location("as the `type` of an environment; its parameters are in `params`"),
    "tracker": _at_location("in the list `tracking`"),
}
