"""The definitions of the recipe language, with the extensions of a catalog.

They describe a recipe after interpolation and overlays. `schema_recipe` builds the schema of recipe files
from them.
"""

from posttrain.compiler.schema.schema_choices import (
    EXACTLY_ONE,
    extension_references,
    extensions_of_kind,
    parameter_definitions,
    single_key_schema,
)
from posttrain.compiler.schema.schema_declarations import (
    Definitions,
    Schema,
    declaration_definitions,
    schema_ref,
    union_schema,
)
from posttrain.compiler.schema.schema_nodes import TYPE_SCHEMA, node_definitions, node_ref
from posttrain.compiler.schema.schema_steps import step_definitions
from posttrain.spec.extension import Catalog, Extension, Method
from posttrain.spec.recipe import VERBS, Recipe

_METRIC_SCHEMA: Schema = {
    "type": ["string", "object"],
    "properties": {
        "rate": {"type": "string", "description": "Share of completions for which this node is true."},
        "mean": {"type": "string", "description": "Mean value of this node."},
    },
    **EXACTLY_ONE,
}


def language_definitions(catalog: Catalog) -> Definitions:
    """All definitions by name. `Recipe` is the root; extensions are named KIND.NAME."""
    found = declaration_definitions(Recipe)
    found |= step_definitions(catalog) | node_definitions(catalog)
    for kind in ("source", "method", "environment", "tracker"):
        for extension in extensions_of_kind(kind, catalog).values():
            found |= parameter_definitions(kind, extension)
    _close_data(found, catalog)
    _close_rewards(found)
    _close_training(found, catalog)
    _close_names(found, catalog)
    found["stage"] = _stage_schema()
    _set_entry_schema(found["Recipe"], "stages", schema_ref("stage"))
    return found


def _set_entry_schema(owner: Schema, field: str, value: Schema) -> None:
    """Set the schema of the entries of a mapping by name."""
    property_schema = owner["properties"][field]
    named = "patternProperties" if "patternProperties" in property_schema else "additionalProperties"
    changed = dict.fromkeys(property_schema[named], value) if named == "patternProperties" else value
    owner["properties"][field] = {**property_schema, named: changed}


def _close_data(found: Definitions, catalog: Catalog) -> None:
    fields = found["Dataset"]["properties"]
    sources = single_key_schema(extension_references("source", catalog), fields["from"]["description"])
    fields["from"] = {**sources, "type": ["string", "object"]}  # text names a dataset or a stage
    fields["steps"] = {**fields["steps"], "items": schema_ref("step")}


def _close_rewards(found: Definitions) -> None:
    reward = found["Reward"]
    _set_entry_schema(reward, "reads", TYPE_SCHEMA)
    _set_entry_schema(reward, "nodes", node_ref("any"))
    reward["properties"]["returns"] = {**reward["properties"]["returns"], **node_ref("number")}
    _set_entry_schema(found["Evaluate"], "metrics", _METRIC_SCHEMA)


def _close_training(found: Definitions, catalog: Catalog) -> None:
    """Restrict `train` to the catalog's methods, and `params` and `reward` depending on the method."""
    methods = extensions_of_kind("method", catalog)
    train = found["Train"]
    train["properties"]["train"] |= _enum_of(methods)
    train["allOf"] = [
        {
            "if": {"properties": {"train": {"const": name}}, "required": ["train"]},
            "then": _method_constraints(method, found[f"method.{name}"]),
        }
        for name, method in methods.items()
        if isinstance(method, Method)
    ]
    known = {"properties": {"train": {"enum": list(methods)}}, "required": ["train"]}
    found["params"] = {"type": "object", **union_schema(found[f"method.{name}"] for name in methods)}
    others = {"properties": {"params": schema_ref("params")}}
    train["allOf"].append({"if": {"not": known}, "then": others})


def _method_constraints(method: Method, params: Schema) -> Schema:
    needed = ["params"] if params.get("required") else []
    # Inside `allOf`, so that editors that insert `params` do not insert all defaults.
    own: Schema = {"type": "object", "allOf": [schema_ref(f"method.{method.name}")]}
    fields: dict[str, Schema | bool] = {"params": own}
    if method.needs_reward:
        needed.append("reward")
    else:
        fields["reward"] = False
    return {"properties": fields, "required": needed}


def _close_names(found: Definitions, catalog: Catalog) -> None:
    trackers = extensions_of_kind("tracker", catalog)
    if trackers:
        tracking = found["Recipe"]["properties"]["tracking"]
        tracking["items"] |= _enum_of(trackers)
    environments = extensions_of_kind("environment", catalog)
    if environments:
        environment = found["Environment"]
        environment["properties"]["type"] |= _enum_of(environments)
        environment["allOf"] = [
            {
                "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
                "then": {"properties": {"params": schema_ref(f"environment.{name}")}},
            }
            for name in environments
        ]


def _enum_of(known: dict[str, Extension]) -> Schema:
    says = [extension.summary for extension in known.values()]
    return {"enum": list(known), "enumDescriptions": says}


def _stage_schema() -> Schema:
    """A stage with one of the verbs. Without a verb, editors offer the verbs."""
    defined = {verb: model.__name__ for verb, model in VERBS.items()}
    says = {verb: " ".join((model.__doc__ or "").split()) for verb, model in VERBS.items()}
    written = [{"required": [verb]} for verb in VERBS]
    return {
        "type": "object",
        "description": "A stage of the pipeline. Its verb is one of " + ", ".join(VERBS) + ".",
        "if": {"anyOf": written},
        "then": {
            "allOf": [
                {"if": {"required": [verb]}, "then": schema_ref(name)} for verb, name in defined.items()
            ]
        },
        "else": {
            "properties": {verb: {"description": text} for verb, text in says.items()},
            "anyOf": written,
        },
    }
