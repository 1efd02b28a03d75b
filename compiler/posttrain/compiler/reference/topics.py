"""The topics of the reference: sections, stages and extensions with their fields."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from posttrain.compiler.reference.flow_yaml import to_flow_yaml
from posttrain.compiler.schema.schema_declarations import Definitions, Schema, subschemas
from posttrain.compiler.schema.schema_examples import with_examples
from posttrain.compiler.schema.schema_language import language_definitions
from posttrain.compiler.schema.schema_recipe import OVERLAY_SECTIONS
from posttrain.compiler.schema.schema_wording import describe_schema
from posttrain.spec.declaration_fields import keys_of
from posttrain.spec.extension import Catalog
from posttrain.spec.recipe import SECTIONS, VERBS
from posttrain.spec.stage import Stage

_RECIPE_LOCATION = "at the top of a recipe"


@dataclass(frozen=True, kw_only=True)
class TopicField:
    """A key of a mapping. `see_also` names the topic of the keys below it."""

    name: str
    description: str
    value_type: str
    required: bool = False
    # As YAML; empty without a default.
    default: str = ""
    see_also: str = ""


@dataclass(frozen=True, kw_only=True)
class Topic:
    """The documentation of one name, such as `models`, `stages.train` or `grpo`."""

    name: str
    # recipe, section, stage, or the kind of an extension.
    kind: str
    description: str
    location: str = ""
    # The place of its fields in a recipe.
    field_location: str = ""
    notes: tuple[str, ...] = ()
    fields: tuple[TopicField, ...] = ()
    example: str = ""
    # Its path in a recipe, if it differs from its name.
    recipe_path: str = ""


def language_topics(found: Definitions) -> Iterator[Topic]:
    """The recipe itself, its sections, and its stages by verb."""
    root = {**found["Recipe"], "properties": {**found["Recipe"]["properties"], **OVERLAY_SECTIONS}}
    places = _declaration_paths(root, found)
    yield Topic(
        name="recipe",
        kind="recipe",
        description="A file that describes a whole pipeline: its declarations and its stages.",
        field_location=_RECIPE_LOCATION,
        fields=topic_fields(root, "", places),
    )
    for name, path in places.items():
        schema = found[name]
        yield Topic(
            name=path,
            kind="stage" if path.startswith("stages.") else "section",
            description=schema["description"],
            location=_topic_location(path),
            field_location=f"in `{path}`",
            fields=_own_fields_first(topic_fields(schema, path, places)),
            example=_topic_example(path, schema),
        )


def _own_fields_first(fields: tuple[TopicField, ...]) -> tuple[TopicField, ...]:
    """Sort the keys of all stages after the keys of this stage."""
    shared = frozenset(keys_of(Stage))
    return tuple(sorted(fields, key=lambda field: field.name in shared))


def reference_definitions(catalog: Catalog) -> Definitions:
    return with_examples(language_definitions(catalog))


def topic_fields(schema: Schema, path: str, places: Mapping[str, str]) -> tuple[TopicField, ...]:
    required = schema.get("required", ())
    return tuple(
        _topic_field(name, held, name in required, path, places)
        for name, held in schema.get("properties", {}).items()
    )


def _topic_field(
    name: str, schema: Schema, required: bool, path: str, places: Mapping[str, str]
) -> TopicField:
    inner = next((places[found] for found in _declaration_names(schema) if found in places), "")
    own = f"{path}.{name}" if path else name
    if name in SECTIONS or own == "stages":
        inner = own
    default = to_flow_yaml(schema["default"]) if "default" in schema and not inner else ""
    return TopicField(
        name=name,
        description=schema.get("description", ""),
        value_type=describe_schema(schema),
        required=required,
        default=default if default not in ("{}", "[]", '""') else "",
        see_also=inner,
    )


def _declaration_paths(root: Schema, found: Definitions) -> dict[str, str]:
    """Each declaration, and its first path in a recipe."""
    places: dict[str, str] = {}
    _collect_paths(root, "", found, places)
    for verb, model in VERBS.items():
        places[model.__name__] = f"stages.{verb}"
        _collect_paths(found[model.__name__], f"stages.{verb}.", found, places)
    return places


def _collect_paths(schema: Schema, prefix: str, found: Definitions, places: dict[str, str]) -> None:
    for field, held in schema.get("properties", {}).items():
        for name in _declaration_names(held):
            if name not in places:
                places[name] = prefix + field
                _collect_paths(found[name], f"{prefix}{field}.", found, places)


def _declaration_names(schema: Schema) -> list[str]:
    """The declarations in a field: a single one, a list, or a mapping by name."""
    name = schema.get("$ref", "").rpartition("/")[2]
    own = [name] if name[:1].isupper() else []
    return [*own, *(inner for part in subschemas(schema) for inner in _declaration_names(part))]


def _topic_location(path: str) -> str:
    if path in SECTIONS:
        return f"in `{path}`, under a name of your choice"
    if path.startswith("stages.") and path.count(".") == 1:
        return "in `stages`, under a name of your choice"
    return ""


def _topic_example(path: str, schema: Schema) -> str:
    found = schema.get("examples")
    if not found:
        return ""
    lines = [f"    {key}: {to_flow_yaml(value)}" for key, value in found[0].items()]
    return "\n".join([f"{path.partition('.')[0]}:", "  NAME:", *lines])
