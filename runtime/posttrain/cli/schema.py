"""`recipe schema`: the JSON Schema of a recipe, for editors; or of a plan, for programs."""

from typing import Any

import click

from posttrain.cli.compile import InvalidUsage


@click.command("schema")
@click.argument("subject", type=click.Choice(["recipe", "plan"]), default="recipe")
@click.option("--overlay", is_flag=True, help="For a file that others extend: nothing in it is required.")
def command(subject: str, overlay: bool) -> None:
    """Print the JSON Schema of a recipe, with every installed extension; or of what `recipe plan --format
    json` prints.

    The YAML language server of an editor takes it for completion, documentation and errors: write it
    to a file, and begin the recipe with the line

        # yaml-language-server: $schema=FILE
    """
    import json

    if subject == "plan" and overlay:
        raise InvalidUsage("--overlay is about recipes; a plan is always whole")
    click.echo(json.dumps(_json_schema(subject, overlay), indent=1))


def _json_schema(subject: str, overlay: bool) -> dict[str, Any]:
    if subject == "plan":
        from posttrain.spec.plan_schema import plan_schema

        return plan_schema()
    from posttrain.compiler.schema.schema_recipe import recipe_schema
    from posttrain.runtime.catalog import CATALOG

    return recipe_schema(CATALOG, whole=not overlay)
