"""`recipe schema`: print the JSON Schema of recipes, for editors, or of plans, for programs."""

from typing import Any

import click

from posttrain.cli.invalid_usage import InvalidUsage


@click.command("schema")
@click.argument("subject", type=click.Choice(["recipe", "plan"]), default="recipe")
@click.option("--overlay", is_flag=True, help="For a file that other recipes extend: no key is required.")
def command(subject: str, overlay: bool) -> None:
    """Print the JSON Schema of recipes, with all installed extensions, or of the output of `recipe plan
    --format json`.

    The YAML language server of an editor uses it for completion, documentation and errors. Write it to a
    file, and start the recipe with the line

        # yaml-language-server: $schema=FILE
    """
    import json

    if subject == "plan" and overlay:
        raise InvalidUsage("--overlay applies to recipes only: a plan is always complete")
    click.echo(json.dumps(_json_schema(subject, overlay), indent=1))


def _json_schema(subject: str, overlay: bool) -> dict[str, Any]:
    if subject == "plan":
        from posttrain.spec.plan_schema import plan_schema

        return plan_schema()
    from posttrain.compiler.schema.schema_recipe import recipe_schema
    from posttrain.runtime.catalog import CATALOG

    return recipe_schema(CATALOG, whole=not overlay)
