"""Adds examples to the definitions, from a recipe that compiles."""

from typing import Any

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE
from posttrain.compiler.parsing.parse import parse
from posttrain.compiler.schema.schema_declarations import Definitions
from posttrain.compiler.text.compile_request import SourceFile
from posttrain.compiler.text.yaml_tree import node_to_builtins
from posttrain.spec.recipe import SECTIONS, VERBS


def with_examples(found: Definitions) -> Definitions:
    """The definitions, with an example for declarations and stages of the minimal recipe."""
    examples = _minimal_examples()
    return {
        name: {**schema, "examples": [examples[name]]} if name in examples else schema
        for name, schema in found.items()
    }


def _minimal_examples() -> dict[str, Any]:
    tree = parse(SourceFile("example", MINIMAL_RECIPE.encode()), Diagnostics())
    assert tree is not None, "the minimal recipe is valid"
    recipe = node_to_builtins(tree)
    result: dict[str, Any] = {}
    for section, model in SECTIONS.items():
        for declared in recipe.get(section, {}).values():
            result.setdefault(model.__name__, declared)
    for stage in recipe["stages"].values():
        verb = next(key for key in stage if key in VERBS)
        result.setdefault(VERBS[verb].__name__, stage)
    return result
