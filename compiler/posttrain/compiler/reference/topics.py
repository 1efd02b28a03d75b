"""What can be explained: the sections, the stages, and every extension, each with its fields."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from posttrain.compiler.reference.values import flow
from posttrain.compiler.schema.examples import with_examples
from posttrain.compiler.schema.language import language
from posttrain.compiler.schema.models import Definitions, Schema, parts
from posttrain.compiler.schema.recipe import OVERLAYS
from posttrain.compiler.schema.words import words
from posttrain.spec.extension import Catalog
from posttrain.spec.recipe import SECTIONS, VERBS

_TOP = "at the top of a recipe"


@dataclass(frozen=True, kw_only=True)
class Field:
    """A key of a mapping. `see` names the topic that tells what is below it."""

    name: str
    says: str
    takes: str
    required: bool = False
    # As YAML; empty when there is none.
    default: str = ""
    see: str = ""


@dataclass(frozen=True, kw_only=True)
class Topic:
    """What one name stands for: `models`, `stages.train`, `grpo`."""

    name: str
    # recipe, section, stage, or the kind of an extension.
    kind: str
    says: str
    where: str = ""
    # Where its fields stand.
    inside: str = ""
    notes: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    example: str = ""
    # Where it stands in a recipe, when that is not its name.
    place: str = ""


def language_topics(found: Definitions) -> Iterator[Topic]:
    """The recipe itself, its sections, and its stages by verb."""
    root = {**found["Recipe"], "properties": {**found["Recipe"]["properties"], **OVERLAYS}}
    places = _places(root, found)
    says = "A file that describes a whole pipeline: what there is, and what is done."
    yield Topic(name="recipe", kind="recipe", says=says, inside=_TOP, fields=fields_of(root, "", places))
    for name, path in places.items():
        schema = found[name]
        yield Topic(
            name=path,
            kind="stage" if path.startswith("stages.") else "section",
            says=schema["description"],
            where=_where(path),
            inside=f"in `{path}`",
            fields=fields_of(schema, path, places),
            example=_example(path, schema),
        )


def definitions_of(catalog: Catalog) -> Definitions:
    return with_examples(language(catalog))


def fields_of(schema: Schema, path: str, places: Mapping[str, str]) -> tuple[Field, ...]:
    required = schema.get("required", ())
    return tuple(
        _field(name, held, name in required, path, places)
        for name, held in schema.get("properties", {}).items()
    )


def _field(name: str, schema: Schema, required: bool, path: str, places: Mapping[str, str]) -> Field:
    inner = next((places[found] for found in _declared(schema) if found in places), "")
    own = f"{path}.{name}" if path else name
    if name in SECTIONS or own == "stages":
        inner = own
    default = flow(schema["default"]) if "default" in schema and not inner else ""
    return Field(
        name=name,
        says=schema.get("description", ""),
        takes=words(schema),
        required=required,
        default=default if default not in ("{}", "[]", '""') else "",
        see=inner,
    )


def _places(root: Schema, found: Definitions) -> dict[str, str]:
    """Each declared model, and the first path at which a recipe holds it."""
    places: dict[str, str] = {}
    _walk(root, "", found, places)
    for verb, model in VERBS.items():
        places[model.__name__] = f"stages.{verb}"
        _walk(found[model.__name__], f"stages.{verb}.", found, places)
    return places


def _walk(schema: Schema, prefix: str, found: Definitions, places: dict[str, str]) -> None:
    for field, held in schema.get("properties", {}).items():
        for name in _declared(held):
            if name not in places:
                places[name] = prefix + field
                _walk(found[name], f"{prefix}{field}.", found, places)


def _declared(schema: Schema) -> list[str]:
    """The declared models that a field holds: alone, in a list, or by name."""
    name = schema.get("$ref", "").rpartition("/")[2]
    own = [name] if name[:1].isupper() else []
    return [*own, *(inner for part in parts(schema) for inner in _declared(part))]


def _where(path: str) -> str:
    if path in SECTIONS:
        return f"under `{path}`, by a name of your own"
    if path.startswith("stages.") and path.count(".") == 1:
        return "under `stages`, by a name of your own"
    return ""


def _example(path: str, schema: Schema) -> str:
    found = schema.get("examples")
    if not found:
        return ""
    lines = [f"    {key}: {flow(value)}" for key, value in found[0].items()]
    return "\n".join([f"{path.partition('.')[0]}:", "  NAME:", *lines])
