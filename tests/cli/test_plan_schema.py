"""`recipe schema plan`: the published schema of plans. It changes only intentionally."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from tests.cli.recipe_corpus import RECIPES
from tests.compiler.test_recipe_corpus import CASES, FILES
from tests.recipe_command import run_command

from posttrain.cli.compile import compile_file
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.document_schema import document_schema
from posttrain.spec.plan import Plan, plan_from_json, plan_to_json

SCHEMA = document_schema(Plan)
VALIDATOR = Draft202012Validator(SCHEMA)
FROZEN = Path(__file__).with_name("plan.schema.json")
VALID = [name for name in FILES if not name.startswith("wrong-")]


def faults(text: str) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(json.loads(text))]


def test_it_is_a_json_schema_and_the_command_prints_it() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(run_command("schema", "plan").stdout) == SCHEMA
    assert run_command("schema", "plan", "--overlay").returncode == 2


def test_it_is_what_was_published(request: pytest.FixtureRequest) -> None:
    """Programs depend on the schema. Use --regenerate after an intentional change."""
    if request.config.getoption("--regenerate"):
        FROZEN.write_text(json.dumps(SCHEMA, indent=1) + "\n")
    assert json.loads(FROZEN.read_text()) == SCHEMA


@pytest.mark.parametrize("name", VALID)
def test_every_plan_of_the_corpus_fits(name: str) -> None:
    def read_file(path: str) -> bytes | None:
        file = CASES / "beside" / path
        return file.read_bytes() if file.is_file() else None

    source = SourceFile(name, (CASES / name).read_bytes())
    plan = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=read_file)).plan
    assert plan is not None
    assert faults(plan_to_json(plan)) == []


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.parent.name)
def test_every_plan_of_a_shipped_recipe_fits_and_comes_back_whole(path: Path) -> None:
    plan = compile_file(path, (), ())[0].plan
    assert plan is not None
    assert faults(plan_to_json(plan)) == []
    assert plan_to_json(plan_from_json(plan_to_json(plan))) == plan_to_json(plan)


def test_every_field_is_described() -> None:
    bare = [
        f"{name}.{field}"
        for name, definition in SCHEMA["$defs"].items()
        for field, schema in definition["properties"].items()
        if not schema.get("description")
    ]
    assert bare == []


@pytest.mark.parametrize("change", ["a key more", "a key less", "text for a number", "another format"])
def test_what_is_no_plan_is_refused(change: str) -> None:
    source = SourceFile("valid-minimal.yaml", (CASES / "valid-minimal.yaml").read_bytes())
    plan = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=lambda _: None)).plan
    assert plan is not None
    data = json.loads(plan_to_json(plan))
    match change:
        case "a key more":
            data["steps"][0]["more"] = 1
        case "a key less":
            del data["steps"][0]["key"]
        case "text for a number":
            data["steps"][0]["attempts"] = "1"
        case _:
            data["format"] = 99
    assert faults(json.dumps(data)) != []
