"""`recipe schema`: the JSON Schema of a recipe, for editors."""

import click


@click.command("schema")
@click.option("--overlay", is_flag=True, help="For a file that others extend: nothing in it is required.")
def command(overlay: bool) -> None:
    """Print the JSON Schema of a recipe, with every installed extension.

    The YAML language server of an editor takes it for completion, documentation and errors: write it
    to a file, and begin the recipe with the line

        # yaml-language-server: $schema=FILE
    """
    import json

    from posttrain.compiler.schema.recipe import recipe_schema
    from posttrain.runtime.catalog import CATALOG

    click.echo(json.dumps(recipe_schema(CATALOG, whole=not overlay), indent=1))
