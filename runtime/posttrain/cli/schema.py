"""`recipe schema`: print the JSON Schema of recipes, for editors, or of records, for programs."""

from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.invalid_usage import InvalidUsage

if TYPE_CHECKING:
    from posttrain.spec.document import Document


@click.command("schema")
@click.argument("subject", type=click.Choice(["recipe", "plan", "manifest", "receipt"]), default="recipe")
@click.option("--overlay", is_flag=True, help="For a file that other recipes extend: no key is required.")
def command(subject: str, overlay: bool) -> None:
    """Print the JSON Schema of recipes, with all installed extensions; of a `plan`, the output of `recipe
    plan --format json`; of a `manifest`, the file manifest.json of a product; or of a `receipt`, which a
    worker writes when its product is complete.

    The YAML language server of an editor uses it for completion, documentation and errors. Write it to a
    file, and start the recipe with the line

        # yaml-language-server: $schema=FILE
    """
    import json

    if subject != "recipe" and overlay:
        raise InvalidUsage(f"--overlay applies to recipes only: a {subject} is always complete")
    click.echo(json.dumps(_json_schema(subject, overlay), indent=1))


def _json_schema(subject: str, overlay: bool) -> dict[str, Any]:
    if subject != "recipe":
        from posttrain.spec.document_schema import document_schema

        return document_schema(_document(subject))
    from posttrain.compiler.schema.schema_recipe import recipe_schema
    from posttrain.runtime.catalog import CATALOG

    return recipe_schema(CATALOG, whole=not overlay)


def _document(subject: str) -> "type[Document]":
    from posttrain.spec.plan import Plan
    from posttrain.spec.product_manifest import Manifest
    from posttrain.spec.step_records import Receipt

    return {"plan": Plan, "manifest": Manifest, "receipt": Receipt}[subject]
