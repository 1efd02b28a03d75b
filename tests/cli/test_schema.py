"""`recipe schema` accepts what the compiler accepts, and rejects errors that a schema can detect."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.cli.recipe_corpus import CORRECT_EXAMPLES, OVERLAYS, RECIPES, parse_tree, path_id
from tests.recipe_command import run_command

from posttrain.compiler.data.relational_steps import RELATIONAL_STEPS
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE
from posttrain.compiler.diagnostic_codes import all_codes
from posttrain.compiler.schema.schema_declarations import subschemas
from posttrain.compiler.schema.schema_language import language_definitions
from posttrain.compiler.schema.schema_recipe import recipe_schema
from posttrain.compiler.text.yaml_tree import node_to_builtins
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.extension import EXTENSION_KINDS
from posttrain.spec.recipe import VERBS

SCHEMA = recipe_schema(CATALOG)
WHOLE = Draft202012Validator(SCHEMA)
OVERLAY = Draft202012Validator(recipe_schema(CATALOG, whole=False))


def faults(text: str, validator: Draft202012Validator = WHOLE) -> list[str]:
    tree = parse_tree(text)
    assert tree is not None
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(node_to_builtins(tree))]


def test_it_is_a_json_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_command_prints_it() -> None:
    ended = run_command("schema")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == SCHEMA
    assert json.loads(run_command("schema", "--overlay").stdout) == OVERLAY.schema


@pytest.mark.parametrize("path", RECIPES, ids=path_id)
def test_every_recipe_fits(path: Path) -> None:
    assert faults(path.read_text()) == []


@pytest.mark.parametrize("path", OVERLAYS, ids=path_id)
def test_every_file_that_others_extend_fits_as_an_overlay(path: Path) -> None:
    assert faults(path.read_text(), OVERLAY) == []


@pytest.mark.parametrize("id", CORRECT_EXAMPLES)
def test_every_right_example_fits(id: str) -> None:
    assert faults(CORRECT_EXAMPLES[id]) == []


# Diagnostics about the form of a value, which a schema can detect without context.
FORM_CODES = [
    "PT0201",
    "PT0202",
    "PT0203",
    "PT0204",
    "PT0211",
    "PT0212",
    "PT0401",
    "PT0402",
    "PT0407",
    "PT0501",
    "PT0601",
]


@pytest.mark.parametrize("id", FORM_CODES)
def test_wrong_examples_about_form_are_refused(id: str) -> None:
    (code,) = (code for code in all_codes() if code.id == id)
    assert faults(code.wrong) != []


CHANGES = {
    "an unknown section": ("models:", "modles: {}\nmodels:"),
    "an unknown key of a model": ("tokenizer:", "tokeniser:"),
    "a key of another verb": ("{train: sft,", "{train: sft, metrics: {},"),
    "two verbs": ("{train: sft,", "{train: sft, eval: base,"),
    "a parameter of another method": ("epochs: 1,", "num_generations: 8,"),
    "text for a number": ("batch_size: 4", "batch_size: four"),
    "a number for text": ("model: base", "model: 1"),
    "a fraction for a whole number": ("batch_size: 4", "batch_size: 4.5"),
    "a number out of bounds": ("batch_size: 4", "batch_size: 0"),
    "another version": ("recipe: 1", "recipe: 2"),
    "a bad name": ("  base:", "  1base:"),
    "a list for a mapping": ("{digits: 2, count: 200}", "[2, 200]"),
    "two sources": ("{arithmetic:", "{files: {path: a, columns: {b: text}}, arithmetic:"),
    "an op of another type": ("when: {math_equal:", "when: {sum: [1]}, else: {math_equal:"),
    "an unknown parameter of an op": ("then: 1.0", "than: 1.0"),
    "a reward where none is taken": ("{train: sft,", "{train: sft, reward: right,"),
    "no reward where one is needed": ("{train: sft,", "{train: grpo,"),
    "a profile with an unknown key": ("name: demo", "name: demo\nprofiles: {smoke: {sed: 1}}"),
    "a profile with a misspelt parameter": (
        "name: demo",
        "name: demo\nprofiles: {smoke: {stages: {sft: {params: {epoch: 1}}}}}",
    ),
    "a number for a path": ("{arithmetic: {digits: 2, count: 200}}", "{files: 1}"),
    "a matrix of no list": ("name: demo", "name: demo\nmatrix: {rate: 1.0e-4}"),
    "a metric of another form": ("{mean: returns}", "{median: returns}"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_mistake_is_refused(change: str) -> None:
    old, new = CHANGES[change]
    assert old in MINIMAL_RECIPE
    assert faults(MINIMAL_RECIPE) == []
    assert faults(MINIMAL_RECIPE.replace(old, new, 1)) != []


VALID_VALUES = {
    "a variable for a number": ("batch_size: 4", 'batch_size: "${vars.batch_size}"'),
    "a variable for one of several words": ("epochs: 1,", 'precision: "${vars.precision}",'),
    "a variable for a method": ("{train: sft,", '{train: "${vars.method}",'),
    "a variable for true or false": ("epochs: 1,", 'packing: "${vars.pack}",'),
    "nothing for what may be nothing": ("epochs: 1,", "max_steps: null,"),
    "a whole number for a number": ("epochs: 1,", "learning_rate: 1,"),
    "a part of a stage in a profile": (
        "name: demo",
        "name: demo\nprofiles: {smoke: {stages: {sft: {params: {epochs: 1}}}}}",
    ),
    "a part of a model in a profile": (
        "name: demo",
        "name: demo\nprofiles: {smoke: {models: {base: {init: {num_hidden_layers: 1}}}}}",
    ),
    "a part of an op in a profile": (
        "name: demo",
        "name: demo\nprofiles: {smoke: {rewards: {right: {returns: {score: {then: 2.0}}}}}}",
    ),
    "a bare path for a source": ("{arithmetic: {digits: 2, count: 200}}", "{files: rows.jsonl}"),
    "one path for a list of one": ("{arithmetic: {digits: 2, count: 200}}", "{files: {path: rows.jsonl}}"),
    "rows in place": ("{arithmetic: {digits: 2, count: 200}}", "{rows: [{prompt: a, answer: b}]}"),
    "a matrix": ("name: demo", "name: demo\nmatrix: {rate: [1.0e-4, 3.0e-4], include: [{rate: 1}]}"),
    "another file to extend": ("name: demo", "name: demo\nextends: [base.yaml, more/lora.yaml]"),
}


@pytest.mark.parametrize("change", VALID_VALUES)
def test_a_liberty_is_taken(change: str) -> None:
    old, new = VALID_VALUES[change]
    assert old in MINIMAL_RECIPE
    assert faults(MINIMAL_RECIPE.replace(old, new, 1)) == []


def test_a_recipe_that_extends_another_may_leave_things_out() -> None:
    assert faults("extends: base.yaml\nstages: {sft: {params: {epochs: 3}}}\n") == []
    assert faults("extends: base.yaml\nstages: {sft: {params: {epoch: 3}}}\n") != []


def test_every_relational_step_has_its_form() -> None:
    found = language_definitions(CATALOG)
    assert all(len(found[f"data.{name}"]) > 1 for name in RELATIONAL_STEPS)


def test_every_extension_is_in_it() -> None:
    named = {kind: set(CATALOG.names(kind)) for kind in EXTENSION_KINDS}
    found = SCHEMA["$defs"]
    for kind in ("method", "reward", "data", "source", "environment"):
        assert {f"{kind}.{name}" for name in named[kind]} <= set(found)


def test_every_reference_leads_somewhere() -> None:
    referenced = set(references(SCHEMA))
    assert {name.removeprefix("#/$defs/") for name in referenced} <= set(SCHEMA["$defs"])


def references(schema: dict[str, Any]) -> list[str]:
    own = [schema["$ref"]] if "$ref" in schema else []
    return own + [name for part in subschemas(schema) for name in references(part)]


def test_every_field_is_described() -> None:
    """Every field of the language and of the extensions has a description."""
    found = language_definitions(CATALOG)
    declared = [
        "Recipe",
        *(model.__name__ for model in VERBS.values()),
        *(n for n in found if n[0].isupper()),
    ]
    methods = [f"method.{name}" for name in CATALOG.names("method")]
    bare = [
        f"{name}.{field}"
        for name in {*declared, *methods, *(f"source.{name}" for name in CATALOG.names("source"))}
        for field, schema in found[name].get("properties", {}).items()
        if not schema.get("description") and "$ref" not in schema
    ]
    assert bare == []


def test_defaults_and_examples_are_in_the_schema() -> None:
    assert SCHEMA["$defs"]["Adapter"]["properties"]["lora_alpha"]["default"] == 32.0
    assert SCHEMA["$defs"]["Recipe"]["properties"]["tracking"]["default"] == ["tensorboard"]
    assert SCHEMA["$defs"]["Model"]["examples"]
    assert SCHEMA["$defs"]["data.split"]["examples"] == [{"test": 200}]
