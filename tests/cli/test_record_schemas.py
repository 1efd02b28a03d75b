"""`recipe schema manifest` and `recipe schema receipt` print the published schemas."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from tests.recipe_command import run_command
from tests.runtime.scripts_recipe import RECIPE, compile_text, run_text

from posttrain.runtime.store import workdir
from posttrain.runtime.store.home import Home
from posttrain.spec.document import Document
from posttrain.spec.document_schema import document_schema
from posttrain.spec.product_manifest import Manifest
from posttrain.spec.step_records import Receipt

DOCUMENTS = {"manifest": Manifest, "receipt": Receipt}


@pytest.mark.parametrize(("subject", "model"), DOCUMENTS.items())
def test_the_schema_is_what_was_published(
    subject: str, model: type[Document], request: pytest.FixtureRequest
) -> None:
    """Programs depend on the schema. Use --regenerate after an intentional change."""
    schema = document_schema(model)
    Draft202012Validator.check_schema(schema)
    frozen = Path(__file__).with_name(f"{subject}.schema.json")
    if request.config.getoption("--regenerate"):
        frozen.write_text(json.dumps(schema, indent=1) + "\n")
    assert json.loads(frozen.read_text()) == schema
    assert json.loads(run_command("schema", subject).stdout) == schema
    assert run_command("schema", subject, "--overlay").returncode == 2
    definitions = [schema, *schema.get("$defs", {}).values()]
    assert all(field.get("description") for one in definitions for field in one["properties"].values())


def test_the_records_of_a_run_fit(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    run_text(tmp_path, RECIPE, home)
    plan, _ = compile_text(tmp_path, RECIPE)
    manifest = json.loads((home.store.root / plan.step("count").key / "manifest.json").read_text())
    validator = Draft202012Validator(document_schema(Manifest))
    assert [error.message for error in validator.iter_errors(manifest)] == []
    assert list(validator.iter_errors({**manifest, "files": {"../count": manifest["files"]["count"]}}))
    (tmp_path / "work" / "files").mkdir(parents=True)
    workdir.write_receipt(tmp_path / "work", plan.step("count").key, {"steps": 1}, {"seconds": 1.0})
    receipt = json.loads((tmp_path / "work" / "receipt.json").read_text())
    validator = Draft202012Validator(document_schema(Receipt))
    assert [error.message for error in validator.iter_errors(receipt)] == []
